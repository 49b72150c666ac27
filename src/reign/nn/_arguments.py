"""The arguments of a model: which ones its constructor takes, and which ones it was given."""

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, get_args, get_origin

if TYPE_CHECKING:
    from reign.nn._model import Model

M = TypeVar("M", bound="Model")


def full_signature(kind: type) -> Signature:
    """The signature of a constructor with all of its ``**options`` spelled out.

    Options are passed on to the parents' constructors, which have the defaults. ``**options: Unpack[...]`` declares which options a
    class accepts; without this declaration it accepts all options of its parents.
    """
    found: dict[str, Parameter] = {}
    declared: dict[str, Any] | None = None
    constructors = [vars(parent)["__init__"] for parent in kind.__mro__ if "__init__" in vars(parent)]
    for depth, constructor in enumerate(constructors):
        named, rest = _split(constructor)
        if depth > 0:
            named = [p.replace(kind=p.KEYWORD_ONLY) for p in named if declared is None or p.name in declared]
        for p in named:
            found.setdefault(p.name, p)
        if rest is None:
            break
        if declared is None and get_origin(rest) is Unpack:
            declared = get_args(rest)[0].__annotations__
    for name in declared or {}:
        found.setdefault(name, Parameter(name, Parameter.KEYWORD_ONLY))
    return Signature(list(found.values()))


def _split(constructor: Callable[..., None]) -> tuple[list[Parameter], Any]:
    """The named parameters of a constructor without ``self``, and the annotation of its ``**options`` (None if it has none)."""
    _, *parameters = inspect.signature(constructor).parameters.values()
    rest = next((p.annotation for p in parameters if p.kind is p.VAR_KEYWORD), None)
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)], rest


class ModelType(type):
    """The metaclass of models: calling a model class checks the names of the arguments and records their values.

    The arguments are recorded in ``__call__`` and not in ``__new__`` or ``__init__``, because copying and unpickling also call ``__new__``,
    and the constructors of all parents are ``__init__`` calls too.
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

    @property
    def __signature__(cls) -> Signature:
        """What ``inspect.signature`` and notebooks show: all options, not the catch-all of ``__call__``."""
        return full_signature(cls)


def known_to_parents(kind: type, name: str) -> bool:
    """Whether a parent of the class takes this argument. If so, passing None to the class itself is the same as leaving it out."""
    return any(name in full_signature(parent).parameters for parent in kind.__mro__[1:] if isinstance(parent, ModelType))


def given(kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, in the order of the signature and then of the call. Tuples become lists, as in JSON."""
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    found = dict(signature.bind(None, *args, **kwargs).arguments)
    found.pop(next(iter(signature.parameters)))
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= found.pop(name, {})
    return {name: list(value) if isinstance(value, tuple | list) else value for name, value in found.items()}
