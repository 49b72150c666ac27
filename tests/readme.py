"""The commands of the README, run as they are printed: ``python tests/readme.py README.md`` runs them in this folder, and prints each with its seconds.

Commands of a clone (``make ...``, ``pip install ...``) are named and left out. A command fails if it ends with an error, prints a warning, or does not
write the file after ``-o``. It needs nothing but reign and the standard library, so that it can try a wheel.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

OF_A_CLONE = ("pip install", "make ")


def commands(page: str) -> list[str]:
    """The commands of a page: the lines of its indented blocks."""
    lines = re.sub(r"(?ms)^```.*?^```", "", page).splitlines()
    return [line.partition("  #")[0].strip() for line in lines if line.startswith("    ")]


def run(command: str) -> None:
    """Run a command that starts with ``reign``, or raise an error that says what was wrong."""
    args = [sys.executable, "-m", *shlex.split(command)]
    if command == "reign explore":
        said = explore(args)
    else:
        done = subprocess.run(args, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}: {said[-2000:]}")
    if "Warning" in said or "Traceback" in said:
        raise RuntimeError(f"{command} warns: {said[-2000:]}")
    if "-o" in args and not (made := Path(args[args.index("-o") + 1])).exists():
        raise RuntimeError(f"{command} did not write {made}.")


def explore(args: list[str]) -> str:
    """Start the explorer, read its page, and stop it. What it writes to stderr goes to a file, which no reader can block."""
    with open("explore.log", "w+") as log:
        env = os.environ | {"BROWSER": "true", "PYTHONUNBUFFERED": "1"}  # a browser that does nothing
        process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=log, text=True, env=env)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if (found := re.search(r"http://\S+", line)) is None:
                raise RuntimeError(f"reign explore printed {line!r}, expected its address.")
            with urllib.request.urlopen(found[0], timeout=60) as page:
                if b"<html" not in page.read():
                    raise RuntimeError(f"{found[0]} is no page.")
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        return line + log.read()


def main(page: Path) -> None:
    """Run all commands, and then the sessions of Python."""
    total = 0.0
    for command in commands(page.read_text(encoding="utf-8")):
        if command.startswith(OF_A_CLONE):
            print(f"{'-':>7}  {command}   (in a clone)")  # noqa: T201
            continue
        start = time.perf_counter()
        run(command)
        total += time.perf_counter() - start
        print(f"{time.perf_counter() - start:7.1f}  {command}", flush=True)  # noqa: T201
    start = time.perf_counter()
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    if failed or not tried:
        raise RuntimeError(f"{failed} of {tried} examples of Python failed.")
    seconds = time.perf_counter() - start
    print(f"{seconds:7.1f}  {tried} examples of Python")  # noqa: T201
    print(f"{total + seconds:7.1f}  seconds in all")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
