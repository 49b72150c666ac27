"""The reference of everything public: a page for each module with all names it exports, and one with the help of every command."""

import importlib
import inspect
import re
import typing
from types import ModuleType

import reign

MODULES = [
    *(f"reign.{name}" for name in reign.__all__ if isinstance(getattr(reign, name), ModuleType)),
    "reign.data.molecules", "reign.explore", "reign.plots.molecules", "reign.registry", "reign.train.settings.losses",
    "reign.train.settings.metrics", "reign.train.settings.optim", "reign.experiments.reproduce", "reign.experiments.tune",
]  # fmt: skip
WHOLE = {"Predictor"}  # classes whose base has methods for users, and no entry of its own


def names_of(module: ModuleType) -> list[str]:
    """What a module exports; for one without a list, what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not name.startswith("_") and not inspect.ismodule(getattr(module, name))]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (getattr(value, "__module__", "") == module.__name__ or name.isupper())
    ]


def api_pages() -> dict[str, str]:
    """The pages by file."""
    modules = ["reign", *sorted(MODULES)]
    pages = {f"api/{name}.md": _page(name) for name in modules}
    rows = "\n".join(f"| [{name}]({name}.md) | {_first(importlib.import_module(name))} |" for name in modules)
    pages["api/index.md"] = (
        f"# Reference\n\nEverything public. The commands are on [a page of their own](commands.md).\n\n| module | |\n|---|---|\n{rows}\n\n"
        "```{toctree}\n:hidden:\n\n" + "\n".join(["commands", *modules]) + "\n```\n"
    )
    pages["api/commands.md"] = _commands()
    return pages


def _first(module: ModuleType) -> str:
    return " ".join((module.__doc__ or "").split("\n\n")[0].split())


def _page(name: str) -> str:
    module = importlib.import_module(name)
    body = "\n\n".join(entry(name, each, getattr(module, each)) for each in names_of(module))
    return f"# {name}\n\n{_first(module)}\n\n```{{eval-rst}}\n.. py:module:: {name}\n\n{body}\n```\n"


def entry(module: str, name: str, value: object) -> str:
    """The directive of one name: classes and functions have docstrings, all else is shown with its value."""
    index = "   :no-index:\n" if module == "reign" else ""
    ours = str(getattr(value, "__module__", "")).startswith("reign")
    if inspect.isclass(value) and ours and not typing.get_args(value):
        added = ", ".join(
            each for each in vars(value) if re.fullmatch(r"set_\w+_request", each)
        )  # by scikit-learn, with its own references
        members = "   :members:\n" + ("   :inherited-members:\n" if name in WHOLE else "")
        return f".. autoclass:: {module}.{name}\n{members}" + (f"   :exclude-members: {added}\n" if added else "") + index
    if inspect.isroutine(value) and ours:
        return f".. autofunction:: {module}.{name}\n{index}"
    text = " ".join(repr(value).split())
    shown = text if len(text) <= 100 and " at 0x" not in text else type(value).__name__
    return f".. py:data:: {module}.{name}\n{index}   :value: {shown}\n"


def _commands() -> str:
    """The help of every command, as the terminal shows it."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from reign.cli import app

    def pages(command: object, words: list[str]) -> list[str]:
        shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}).output
        lines = "\n".join(line.rstrip() for line in shown.strip("\n").splitlines())
        found = [f"{'##' if words else '#'} {' '.join(['reign', *words]) if words else 'Commands'}\n\n```text\n{lines}\n```\n"]
        for name, below in getattr(command, "commands", {}).items():
            found += pages(below, [*words, name])
        return found

    return "\n".join(pages(get_command(app), []))
