"""``python -m reign`` and the ``reign`` command. Almost nothing is imported here, so that Ctrl-C works from the start."""

import os
import signal
import sys
import warnings

SPINS = "2000"  # threads of PyTorch wait busily so long, about as long as a small operation takes, before they leave their core to others
PRODUCTS = "64"  # number of matrix products that oneDNN keeps ready; it would keep 1,024, and each number of rows has its own
INTERRUPTED = 130  # what typer exits with, silently, if Ctrl-C comes while it reads the arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def main() -> None:
    """Run the command line, or print which package is missing."""
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = SPINS
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", PRODUCTS)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a background job may be set to ignore it
        signal.signal(signal.SIGINT, _interrupt)
    try:
        try:
            from reign.cli import app
        except ModuleNotFoundError as missing:
            if missing.name not in ("typer", "rich"):
                raise
            sys.stderr.write(f"The command line needs {missing.name}: pip install 'reign[train]'.\n")
            sys.exit(2)
        warnings.formatwarning = lambda message, *_: f"reign: {message}\n"  # one line, without the line of source code
        app(prog_name="reign")
    except KeyboardInterrupt:
        _stop()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _stop()
        raise


def _interrupt(number: int, frame: "FrameType | None") -> None:
    """Handle Ctrl-C during imports: exit at once, without a traceback or a partly imported module."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _stop()
        frame = frame.f_back
    raise KeyboardInterrupt


def _stop() -> None:
    sys.stderr.write("reign: stopped.\n")
    sys.stderr.flush()
    os._exit(2)


if __name__ == "__main__":
    main()
