"""Print all texts of the command line, to read them in one file: ``python tests/prose.py > prose.txt``.

Help texts come from the commands, and messages from the source: errors, warnings, notes and prints. Parts of a message that are filled in
at run time are in braces.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from reign.cli import app

SOURCE = Path(__file__).parents[1] / "src" / "reign"
TELLING = {"fail", "check", "warn", "note", "print"}  # functions whose texts users read


def helps(command: Any, name: str) -> Iterator[str]:
    """The help of a command, its options and its subcommands."""
    yield f"\n{name}\n    {command.help or ''}"
    for option in command.params:
        if text := getattr(option, "help", None):
            yield f"    {'/'.join(option.opts)}: {text}"
    for below, sub in getattr(command, "commands", {}).items():
        yield from helps(sub, f"{name} {below}")


def texts(node: ast.AST) -> Iterator[str]:
    """The texts of an expression: plain strings and f-strings."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{" + ast.unparse(getattr(part, "value", part)) + "}"
            for part in node.values
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The messages of a module, with line numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found = " ".join(texts(node.exc))
        elif isinstance(node, ast.Call) and (name := getattr(node.func, "attr", None) or getattr(node.func, "id", None)) in TELLING:
            arguments = (
                [node.args[0], node.args[-1]] if name == "check" else node.args
            )  # the name of a value, and what was expected
            found = " ".join(text for argument in arguments for text in texts(argument))
        else:
            continue
        if len(found.split()) > 2:
            yield node.lineno, " ".join(found.split())


def main() -> None:
    """Print all texts."""
    out = sys.stdout.write
    out("# Help\n")
    for text in helps(get_command(app), "reign"):
        out(text + "\n")
    out("\n# Messages\n")
    for file in sorted(SOURCE.rglob("*.py")):
        found = sorted(set(messages(ast.parse(file.read_text()))))
        if found:
            out(f"\n{file.relative_to(SOURCE)}\n")
            for line, text in found:
                out(f"    {line}: {text}\n")


if __name__ == "__main__":
    main()
