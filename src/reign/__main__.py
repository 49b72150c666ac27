"""``python -m reign`` and the ``reign`` command."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line, or say what it needs."""
    before = signal.signal(signal.SIGINT, _stop)  # an interrupted import would be a traceback, or a module that is half there
    try:
        from reign.cli import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.stderr.write(f"The command line needs {missing.name}: pip install 'reign[train]'.\n")
        sys.exit(2)
    signal.signal(signal.SIGINT, before)
    try:
        app()
    except KeyboardInterrupt:
        _stop()


def _stop(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """Leave at once; nothing has been begun."""
    sys.stderr.write("reign: stopped.\n")
    sys.stderr.flush()
    os._exit(2)


if __name__ == "__main__":
    main()
