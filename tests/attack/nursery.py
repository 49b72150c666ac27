"""Commands as children of a process that has imported everything, so that a test can kill many of them in little time.

Run as a script. A line of JSON on the standard input starts a command, and a line with its exit status comes back.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}


class Nursery:
    """The other end: starts commands, one at a time.

    Args:
        errors: a file that takes what the commands print on the error stream.
    """

    def __init__(self, errors: Path) -> None:
        self.errors = errors
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self._line() == "ready"

    def run(self, *args: Any, folder: Path, kill_after: float | None = None, kill_at: int = -1) -> int:
        """The exit status of a command, negative for a signal.

        Args:
            args: the command.
            folder: the folder whose files count for ``kill_at``.
            kill_after: kill the command after this many seconds.
            kill_at: kill the command just before it changes a file for this time, counted from 0.
        """
        order = {"args": list(map(str, args)), "folder": str(folder), "kill_after": kill_after, "kill_at": kill_at}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**order, "errors": str(self.errors)}) + "\n")
        self.process.stdin.flush()
        return os.waitstatus_to_exitcode(int(self._line()))

    def changes(self) -> int:
        """The number of changes of files that the last command made, if it came to its end."""
        return int(self.errors.with_suffix(".changes").read_text())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


class Changes:
    """Counts what is done to the files of a folder, before it is done, and kills the process at one of these moments."""

    def __init__(self, folder: str, kill_at: int) -> None:
        self.folder, self.kill_at, self.number = folder, kill_at, 0
        self.sync = os.fsync
        sys.addaudithook(self.hear)
        os.fsync = self.hear_sync

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in CHANGES) and str(args[0]).startswith(self.folder):
            self.count()

    def hear_sync(self, file: Any) -> None:
        self.count()
        self.sync(file)

    def count(self) -> None:
        if self.number == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.number += 1


def run(order: dict[str, Any]) -> None:
    """A command in this process."""
    for number, name in ((0, os.devnull), (1, os.devnull), (2, order["errors"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    changes = Changes(order["folder"], order["kill_at"])
    sys.argv = ["reign", *order["args"]]
    try:
        main()
    finally:
        Path(order["errors"]).with_suffix(".changes").write_text(str(changes.number))


def watch(pid: int, kill_after: float | None) -> int:
    """The status of a child when it has ended; it is killed when its time is over."""
    end = math.inf if kill_after is None else time.monotonic() + kill_after
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


if __name__ == "__main__":
    for name in [
        "lightning.fabric",
        "pandas",
        "rdkit.Chem",
        "sklearn.metrics",
        "reign.cli",
        "reign.experiments",
        "reign.train.runs",
    ]:
        __import__(name)
    from reign.__main__ import main

    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        order = json.loads(line)
        if (pid := os.fork()) == 0:
            run(order)
            sys.exit()
        print(watch(pid, order["kill_after"]), flush=True)  # noqa: T201
