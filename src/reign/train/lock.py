"""A lock that lets only one process at a time write to the folder of a run."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

NAME = ".lock"


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Lock the folder of a run. If another process holds the lock, ``ValueError`` names that process.

    The operating system locks the file ``.lock``, and releases the lock when the process ends for any reason. The folder is
    created if it does not exist, and removed again if nothing was written to it.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, expected a folder for the run.")
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _take(folder / NAME, folder)
    except OSError as error:
        raise ValueError(f"{folder} cannot be used for the run ({error.strerror or error}).") from None
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / NAME).unlink()
        file.close()
        with suppress(OSError):  # folders that are not empty are kept
            for place in new:
                place.rmdir()


def _take(path: Path, folder: Path) -> IO[str]:
    while True:
        file = path.open("a+")
        if not _lock(file):
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise ValueError(f"{holder} is writing to {folder}; wait until it is done, or choose another folder with -o.")
        # the previous holder may have removed the file after we opened it and before we locked it
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                break
        file.close()
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    return file


def _lock(file: IO[str]) -> bool:
    """Lock a file. Return whether this succeeded, that is, no other process holds the lock."""
    try:
        if sys.platform == "win32":
            file.seek(2**30)  # far behind the text, which other processes must be able to read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
