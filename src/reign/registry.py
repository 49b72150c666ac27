"""Lookup by name: models, policies, data sets, families of graphs, losses, metrics and optimisers each have a ``Registry``."""

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

from reign._validate import did_you_mean

T = TypeVar("T")


def plain(name: str) -> str:
    """A name in lower case without hyphens and underscores, so that all common spellings are equal.

    >>> plain("GNN-AK_ctx")
    'gnnakctx'
    """
    return name.strip().lower().replace("-", "").replace("_", "").replace(" ", "")


class Registry(Generic[T]):
    """A dictionary with a decorator to register entries, and with suggestions for misspelled names.

    >>> SHAPES = Registry[type]("shape")
    >>> @SHAPES.register("circle", "disc")
    ... class Circle: ...
    >>> SHAPES["Disc"] is Circle, SHAPES.names()
    (True, ['circle'])
    >>> SHAPES["circel"]
    Traceback (most recent call last):
        ...
    ValueError: unknown shape 'circel'; did you mean 'circle'? Known: circle.

    Args:
        kind: the kind of entries, for messages.
        spelling: function that maps a name to the spelling under which it is stored.
        pattern: regular expression that names must match, for names that are part of a grammar.
        hint: the end of the message for an unknown name, after the known names.
    """

    def __init__(self, kind: str, *, spelling: Callable[[str], str] = plain, pattern: str | None = None, hint: str = "") -> None:
        self.kind, self.spelling, self.pattern, self.hint = kind, spelling, pattern, hint
        self._entries: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._later: dict[str, str] = {}  # the modules of entries that are not registered yet

    def register(self, name: str | None = None, *aliases: str) -> Callable[[T], T]:
        """A decorator that registers a class, a function or a value under a name and optional aliases.

        Without a name, the attribute ``name`` of the entry is used. The same definition may be registered again, for example when
        a notebook cell is run twice; it replaces the old one.
        """

        def add(entry: T) -> T:
            first: Any = getattr(entry, "name", None) if name is None else name
            for word in (first, *aliases):
                self._check(word, entry)
            self._later.pop(first, None)
            self._entries[first] = entry
            self._aliases |= {self.spelling(word): first for word in (first, *aliases)}
            return entry

        return add

    def later(self, module: str, *names: str) -> None:
        """List names here that a module will register. It is imported when an entry is needed or a name is unknown."""
        self._later |= dict.fromkeys(names, module)
        self._entries |= dict.fromkeys(names, cast(T, None))

    def _import(self) -> None:
        for module in set(self._later.values()):
            import_module(module)

    def _check(self, word: Any, entry: T) -> None:
        """Raise ``ValueError`` unless an entry can be registered under this name."""
        if not isinstance(word, str) or not self.spelling(word):
            raise ValueError(f"{word!r} cannot be the name of a {self.kind}, expected a text with letters or digits.")
        if self.pattern is not None and not re.fullmatch(self.pattern, word):
            raise ValueError(f"{word!r} cannot be the name of a {self.kind}, expected a name that matches {self.pattern}.")
        owner = self._later.get(self.spelling(word))
        if owner is not None and not str(getattr(entry, "__module__", "")).startswith(owner):
            import_module(owner)
        name = self._aliases.get(self.spelling(word))
        if name is not None and self._entries[name] is not entry and not _same_place(self._entries[name], entry):
            raise ValueError(f"{self.kind} '{word}' is already registered as {self._entries[name]!r}; choose another name.")

    def __getitem__(self, name: str) -> T:
        """The entry with this name, in any common spelling. An unknown name raises ``ValueError`` with similar names."""
        if name not in self:
            raise ValueError(self.unknown(name))
        return self._entries[self._aliases[self.spelling(name)]]

    def unknown(self, name: Any) -> str:
        """The message for an unknown name."""
        guess = did_you_mean(self.spelling(name), self._aliases, number=2) if isinstance(name, str) else "."
        return f"unknown {self.kind} {name!r}{guess} Known: {', '.join(self._entries)}{self.hint}."

    def name_of(self, entry: Any) -> str | None:
        """The name of a registered entry, or None if it is not registered."""
        return next((name for name, known in self._entries.items() if known is entry), None)

    def names(self) -> list[str]:
        """All names, in the order of registration, without aliases."""
        return list(self._entries)

    def items(self) -> list[tuple[str, T]]:
        """All names and their entries."""
        self._import()
        return list(self._entries.items())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if self.spelling(name) not in self._aliases:
            self._import()
        return self.spelling(name) in self._aliases

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _same_place(one: Any, other: Any) -> bool:
    """Whether two entries are the same definition, run again, as in a notebook cell."""
    place = [(getattr(entry, "__module__", None), getattr(entry, "__qualname__", None)) for entry in (one, other)]
    return place[0] == place[1] and place[0][1] is not None
