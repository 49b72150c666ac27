"""``python -m reign`` and the ``reign`` command."""

import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from reign.cli import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.stderr.write(f"The command line needs {missing.name}: pip install 'reign[train]'.\n")
        sys.exit(2)
    app()


if __name__ == "__main__":
    main()
