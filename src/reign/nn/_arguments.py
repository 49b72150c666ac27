"""The arguments of a model: which ones its constructor takes, and which ones it was given."""

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, get_args, get_origin

if TYPE_CHECKING:
    from reign.nn._model import Model

M = TypeVar("M", bound="Model")


def option_names(kind: type) -> list[str]:
    """The names of all arguments of a constructor, with those of ``**options: Unpack[...]`` spelled out.

    A constructor with ``**options`` of no declared type passes them on, so the names of its parent's are added.
    """
    names: dict[str, None] = {}
    for parent in kind.__mro__:
        if "__init__" not in vars(parent):
            continue
        parameters = list(inspect.signature(vars(parent)["__init__"]).parameters.values())[1:]  # without self
        rest = next((p.annotation for p in parameters if p.kind is p.VAR_KEYWORD), None)
        names |= dict.fromkeys(p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
        if rest is None:
            break
        if get_origin(rest) is Unpack:
            names |= dict.fromkeys(get_args(rest)[0].__annotations__)
            break
    return list(names)


class ModelType(type):
    """The type of model classes: a call of a class checks the names of its arguments, and remembers what was given.

    Remembering happens when a class is called, and not in ``__new__`` or ``__init__``, because copying and unpickling go through the
    former, and the constructors of all parents through the latter.
    """

    def __call__(cls: type[M], *args: Any, **kwargs: Any) -> M:  # type: ignore[misc]
        """Make a model."""
        taken = set(cls.option_names())
        for name, value in kwargs.items():
            if name not in taken and (value is not None or not known_to_parents(cls, name)):
                raise ValueError(cls.refusal(name, value))
        model: M = type.__call__(cls, *args, **{name: value for name, value in kwargs.items() if name in taken})
        model._config = given(cls, args, kwargs)
        return model


def known_to_parents(kind: type, name: str) -> bool:
    """Is an argument known to a parent of a class? For the class itself, None then is as good as leaving it out."""
    return any(name in option_names(parent) for parent in kind.__mro__[1:] if isinstance(parent, ModelType))


def given(kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, in the order of the signature and then of the call; tuples as lists, as JSON has them."""
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    found = dict(signature.bind(None, *args, **kwargs).arguments)
    found.pop(next(iter(signature.parameters)))
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= found.pop(name, {})
    return {name: list(value) if isinstance(value, tuple | list) else value for name, value in found.items()}
