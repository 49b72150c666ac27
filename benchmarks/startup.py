"""Start-up time: CPU and wall time of ``--version``, ``--help`` and imports, each in a new process.

    python benchmarks/startup.py [--source OTHER/src] [--repeats 5]

The commands are those of the tree that this file lies in, or of another one given with ``--source``; medians are shown.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = ["--version", "--help", "train --help", "predict --help", "separate --help", "data info --help"]
IMPORTS = ["import torch, torch_geometric", "import reign", "import reign; reign.nn", "import reign; reign.train"]
LOADED = "import sys; print(*(name for name in ('torch', 'torch_geometric') if name in sys.modules))"


def cost(args: list[str], environment: dict[str, str], repeats: int) -> tuple[float, float]:
    """The medians of CPU seconds and of wall seconds of a command."""
    found = []
    for _ in range(repeats):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, *args], env=environment, check=True, stdout=subprocess.DEVNULL)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall))
    cpu, wall = (statistics.median(column) for column in zip(*found, strict=True))
    return cpu, wall


def loads(args: list[str], environment: dict[str, str]) -> str:
    """Which of torch and torch_geometric a command loads."""
    code = f"import runpy, sys; sys.argv = {['reign', *args]!r}\ntry: runpy.run_module('reign', run_name='__main__')\n"
    code += f"except SystemExit: {LOADED}"
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[-1]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(given.source.absolute()), "OMP_NUM_THREADS": "1"}
    print(f"{'':36}{'CPU s':>8}{'wall s':>8}  loads")
    for command in COMMANDS:
        cpu, wall = cost(["-m", "reign", *command.split()], environment, given.repeats)
        print(f"{'reign ' + command:36}{cpu:8.2f}{wall:8.2f}  {loads(command.split(), environment)}")
    for code in IMPORTS:
        cpu, wall = cost(["-c", code], environment, given.repeats)
        print(f"{code:36}{cpu:8.2f}{wall:8.2f}")


if __name__ == "__main__":
    main()
