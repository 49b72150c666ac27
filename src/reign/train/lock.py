"""One process at a time writes to the folder of a run."""

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
    """Hold the folder of a run; ``ValueError`` says which process holds it, if another one does.

    The lock is one of the operating system's on the file ``.lock``, so it does not outlive its process, however that ends. The folder is
    made if it does not exist, and removed again if nothing was written to it.
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
        with suppress(OSError):  # those that are not empty stay
            for place in new:
                place.rmdir()


def _take(path: Path, folder: Path) -> IO[str]:
    while True:
        file = path.open("a+")
        if not _lock(file):
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise ValueError(f"{holder} is at work in {folder}; wait until it is done, or choose another folder with -o.")
        # the holder before us may have removed the file between our opening and our locking it
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                break
        file.close()
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    return file


def _lock(file: IO[str]) -> bool:
    """Take the lock of a file, if no other process has it."""
    try:
        if sys.platform == "win32":
            file.seek(2**30)  # far behind the text, which others are to read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
