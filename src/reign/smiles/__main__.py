"""A process that reads SMILES: rows come in through the standard input, and graphs go out through the standard output."""

import os
import signal
import sys
import warnings

from reign.smiles._processes import receive_rows, send_graphs
from reign.smiles._reading import BlockReader


def main() -> None:
    """Read blocks until there are no more. Ctrl-C is left to the first process; without it, the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not be taken for a message
    warnings.formatwarning = lambda message, *_: f"reign: {message}\n"  # as in the first process
    reader = BlockReader()
    try:
        while (rows := receive_rows(sys.stdin.buffer)) is not None:
            send_graphs(out, reader.read(rows))
    except BrokenPipeError:
        os._exit(1)


if __name__ == "__main__":
    main()
