"""What a constructor takes: its full signature, the arguments of a call, and a sentence for each of them.

Constructors of layers and models take most options as ``**options: Unpack[...]`` of the typed dictionaries in ``_options``. A docstring explains
what is new in its class. When it is read (by ``help``, notebooks and the reference), every other argument is added with the sentence from where it
is declared: the typed dictionary, a parent, or a class that the docstring names, as in ``transform, needle: see ``SUNConv``.``
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature
from textwrap import dedent, fill, indent
from typing import Any, TypeVar, Unpack, get_args, get_origin, is_typeddict

M = TypeVar("M")


# -- signatures ----------------------------------------------------------------------------------------------------------------


def full_signature(kind: type) -> Signature:
    """The signature of a constructor with all of its ``**options`` spelled out.

    Options are passed on to the parents' constructors, which have the defaults. ``**options: Unpack[...]`` declares which options a
    class accepts; without this declaration it accepts all options of its parents. ``defaults`` of a class replace those of its parents.
    """
    parameters: dict[str, Parameter] = {}
    declared: Mapping[str, object] | None = None
    defaults: dict[str, object] = {}
    for depth, parent in enumerate(parent for parent in kind.__mro__ if "__init__" in vars(parent)):
        named, rest = _split(vars(parent)["__init__"])
        defaults = vars(parent).get("defaults", {}) | defaults
        if depth > 0:
            named = [p.replace(kind=p.KEYWORD_ONLY) for p in named if declared is None or p.name in declared]
        for p in named:
            parameters.setdefault(p.name, p.replace(default=defaults.get(p.name, p.default)))
        if rest is None:
            break
        if declared is None and get_origin(rest) is Unpack:
            declared = get_args(rest)[0].__annotations__
    for name in declared or {}:
        parameters.setdefault(name, Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name, Parameter.empty)))
    return Signature(list(parameters.values()))


def _split(constructor: Callable[..., None]) -> tuple[list[Parameter], Any]:
    """The named parameters of a constructor without ``self``, and the annotation of its ``**options`` (None if it has none)."""
    _, *parameters = inspect.signature(constructor).parameters.values()
    rest = next((p.annotation for p in parameters if p.kind is p.VAR_KEYWORD), None)
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)], rest


def _with_defaults(constructor: Callable[..., None], defaults: dict[str, object]) -> Callable[..., None]:
    """A constructor that is given the ``defaults`` of its class in place of options that a call leaves out."""
    names = list(inspect.signature(constructor).parameters)

    @wraps(constructor)
    def __init__(self: object, *args: Any, **options: Any) -> None:
        placed = names[1 : len(args) + 1]
        constructor(self, *args, **{name: value for name, value in defaults.items() if name not in placed} | options)

    return __init__


def constructor_of(kind: type) -> Callable[..., None] | None:
    """The constructor that a class defines itself; None if it has that of a parent, perhaps with other ``defaults``."""
    found = vars(kind).get("__init__")
    return found if getattr(found, "__qualname__", "").startswith(f"{kind.__qualname__}.") else None


class ModelType(type):
    """The metaclass of models: calling a model class checks the names of the arguments and records their values.

    The arguments are recorded in ``__call__`` and not in ``__new__`` or ``__init__``, because copying and unpickling also call ``__new__``,
    and the constructors of all parents are ``__init__`` calls too.
    """

    __doc__ = vars(type)["__doc__"]  # the text above would hide that of a model from pydoc, which reads it from the metaclass first

    def __init__(cls, name: str, bases: tuple[type, ...], content: dict[str, object], **options: Any) -> None:
        super().__init__(name, bases, content, **options)
        kind: Any = cls
        if defaults := vars(kind).get("defaults"):
            if wrong := next((option for option in defaults if option not in kind.option_names()), None):
                raise ValueError(f"defaults of {name}: {kind.refusal(wrong, defaults[wrong])}")
            kind.__init__ = _with_defaults(kind.__init__, defaults)

    def __call__(cls: type[M], *args: Any, **kwargs: Any) -> M:
        """Make a model."""
        kind: Any = cls
        taken = set(kind.option_names())
        for name, value in kwargs.items():
            if name not in taken and (value is not None or not known_to_parents(cls, name)):
                raise ValueError(kind.refusal(name, value))
        model = type.__call__(cls, *args, **{name: value for name, value in kwargs.items() if name in taken})
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
    arguments = dict(signature.bind(None, *args, **kwargs).arguments)
    arguments.pop(next(iter(signature.parameters)))
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(name, {})
    return {name: list(value) if isinstance(value, tuple | list) else value for name, value in arguments.items()}


# -- explanations --------------------------------------------------------------------------------------------------------------

ARGS = re.compile(r"^((?:Args|Arguments|Parameters):\n)((?:[ \t]+\S.*(?:\n+|$))+)", re.MULTILINE)
OTHER = re.compile(r"^(Parameters\n-+$|:param )", re.MULTILINE)  # of NumPy and Sphinx: such a docstring stays as it is
SEE = re.compile(r"see ``(\w+)``\.")


class FullDocstring:
    """The docstring of a class, in which all arguments of its constructor are explained when it is first read.

    What a class outside of reign says of its arguments stays as it is written; only those that it does not name are added.

    Args:
        kind: the class.
        written: its docstring in the source.
    """

    def __init__(self, kind: type, written: str) -> None:
        self.kind, self.written = kind, inspect.cleandoc(written)
        self._full = ""

    def __get__(self, _: object, kind: type) -> str:
        if not self._full:
            kind, own = self.kind, self.kind.__module__.partition(".")[0] == "reign"
            parameters = full_signature(kind).parameters
            kept = {
                name: indent(entry, " " * 4)
                for name, (text, entry) in _entries(kind).items()
                if not own and not SEE.fullmatch(text)
            }
            lines = dict.fromkeys([*(kept.get(name) or _explained(kind, p) for name, p in parameters.items()), *kept.values()])
            args = "\n".join(line for line in lines if line)
            written = self.written if ARGS.search(self.written) else f"{self.written}\n\nArgs:\n    _"
            self._full = (
                self.written
                if not args or OTHER.search(self.written)
                else ARGS.sub(lambda found: f"{found[1]}{args}\n\n", written, count=1).rstrip()
            )
        return self._full


def explain(kind: type) -> None:
    """Let the docstring of a class explain all arguments of its constructor."""
    if vars(kind).get("__doc__"):
        kind.__doc__ = FullDocstring(kind, vars(kind)["__doc__"])  # type: ignore[assignment]


def sentence(kind: type, name: str) -> tuple[str, type]:
    """The sentence that explains an argument of a class, or "", and the class or typed dictionary that it is from.

    >>> from reign.nn import SUN
    >>> sentence(SUN, "needle")
    ('"mean" or "sum" over subgraphs.', <class 'reign.nn.models._sun.SUNConv'>)
    """
    for parent in kind.__mro__:
        for home in (parent, *_dictionaries(parent)):
            written = {argument: text for argument, (text, _) in _entries(home).items()}
            for text in (written.get(name), written.get("options")):
                found = SEE.fullmatch(text or "")
                modules = [sys.modules.get(module) for module in (home.__module__, "reign.nn")] if found else []
                named = [value for module in modules if isinstance(value := getattr(module, found[1], None), type)] if found else []
                if named:
                    text, other = sentence(named[0], name)
                    if text:
                        return text, other
                elif text and text is written.get(name):
                    return text, home
    return "", kind


def _dictionaries(kind: type) -> list[type]:
    """The typed dictionaries in the module that declares the options of a class; each option is declared in one of them."""
    if not is_typeddict(kind):
        rest = _split(written)[1] if (written := constructor_of(kind)) else None
        if get_origin(rest) is not Unpack:
            return []
        kind = get_args(rest)[0]
    found = getattr(sys.modules.get(kind.__module__), "__dict__", {"": kind})
    return [value for value in found.values() if is_typeddict(value)]


def _entries(kind: type) -> dict[str, tuple[str, str]]:
    """The explanations in the docstring of a class by argument: the sentence, and the whole entry as it stands in the source."""
    doc = vars(kind).get("__doc__") or ""
    block = ARGS.search(doc.written if isinstance(doc, FullDocstring) else inspect.cleandoc(doc))
    found: dict[str, tuple[str, str]] = {}
    for entry in re.split(r"\n+(?=\S)", dedent(block[2]).rstrip()) if block else ():
        names, _, text = " ".join(entry.split()).partition(": ")
        found |= dict.fromkeys(re.sub(r"\*| \(.*\)$", "", names).split(", "), (text, entry))
    return found


def _explained(kind: type, parameter: Parameter) -> str:
    """The line of an argument: its sentence and its default. There is none for an argument without a sentence."""
    name, default = parameter.name, parameter.default
    text, home = sentence(kind, name)
    if not text:
        return ""
    if default in (None, Parameter.empty) and not is_typeddict(home) and (theirs := full_signature(home).parameters.get(name)):
        default = theirs.default
    shown = f'"{default}"' if isinstance(default, str) else getattr(default, "__name__", repr(default))
    if default is not Parameter.empty and len(shown) <= 60 and "not given" not in text and "default" not in text:
        text += f" Default: {shown}."
    return fill(
        f"{name}: {text}", 120, initial_indent=" " * 4, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False
    )
