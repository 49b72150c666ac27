"""Every text that a person reads on the command line, in one file to read through: ``python tests/prose.py > prose.txt``.

Help texts come from the commands, messages from the source: what is raised, told, warned of and noted. Parts of a message that are filled
in at run time stand in braces.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from reign.cli import app

SOURCE = Path(__file__).parents[1] / "src" / "reign"
TELLING = {"fail", "check", "warn", "note", "print"}  # functions whose texts are for people


def helps(command: Any, name: str) -> Iterator[str]:
    """The help of a command, of its options, and of the commands below it."""
    yield f"\n{name}\n    {command.help or ''}"
    for option in command.params:
        if text := getattr(option, "help", None):
            yield f"    {'/'.join(option.opts)}: {text}"
    for below, sub in getattr(command, "commands", {}).items():
        yield from helps(sub, f"{name} {below}")


def texts(node: ast.AST) -> Iterator[str]:
    """The texts of an expression: plain ones, and those with parts to fill in."""
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
    """What a module tells people, with line numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found = " ".join(texts(node.exc))
        elif isinstance(node, ast.Call) and (getattr(node.func, "attr", None) or getattr(node.func, "id", None)) in TELLING:
            found = " ".join(text for argument in node.args for text in texts(argument))
        else:
            continue
        if len(found.split()) > 2:
            yield node.lineno, " ".join(found.split())


def main() -> None:
    """Print all of them."""
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
