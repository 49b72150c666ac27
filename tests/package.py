"""Try the wheel in dist/: what it holds, and the README from it alone. ``make package`` builds it first.

    python tests/package.py dist 2.13.0                            with this Python and this torch
    python tests/package.py dist --matrix 2.11.0 2.13.0 2.15.0     with every Python from 3.11 on that is on the PATH, and these versions of torch

A version of torch can be the folder of an environment that has it, for its own Python. What is missing is named.
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
LARGEST = 10_000_000  # bytes of a wheel
PYTHONS = [f"python3.{minor}" for minor in range(11, 16)]
GOOD = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
NO_TORCH = 3  # how try_wheel.sh says that a torch cannot be had


def faults(names: list[str], size: int) -> list[str]:
    """What is wrong with a wheel: files that do not belong there or are missing, and its size."""
    outside = [
        name
        for name in names
        if not name.startswith(("reign/", "reign-"))
        or "/tests/" in name
        or "/test_" in name
        or name.endswith((".pyc", ".npz", ".csv"))
    ]
    needed = [
        "reign/py.typed",
        "reign/explore/page/index.html",
        "reign/experiments/evidence.yaml",
        "reign/experiments/recipes/zinc.yaml",
    ]
    lacks = [f"{name} is missing" for name in needed if name not in names]
    return [
        *(f"{name} does not belong there" for name in outside),
        *lacks,
        *([f"it has {size:,} bytes, at most {LARGEST:,}"] if size > LARGEST else []),
    ]


def can_run(python: str) -> str:
    """Why this Python cannot be used; nothing if it can."""
    if shutil.which(python) is None:
        return "is not on the PATH"
    done = subprocess.run([python, "-c", GOOD], capture_output=True, text=True)
    return f"is on the PATH, but does not run ({done.stderr.strip().splitlines()[:1]})" if done.returncode else ""


def version(python: str) -> str:
    script = "import sys; print(*sys.version_info[:2], sep='.')"
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def attempt(python: str, torch: str, wheel: Path) -> str:
    """The outcome with one Python and one torch."""
    if Path(torch).is_dir() and version(f"{torch}/bin/python") != version(python):
        return "missing: that environment has another Python"
    start = time.perf_counter()
    done = subprocess.run(["sh", str(HERE / "try_wheel.sh"), python, torch, str(wheel)])
    if done.returncode == NO_TORCH:
        return "missing: there is no build of it for CPUs (CUDA=1 allows builds with CUDA, TORCHES takes folders of environments)"
    return f"failed with {done.returncode}" if done.returncode else f"works, {time.perf_counter() - start:.0f} s"


def main() -> int:
    """Try everything; 1 if something failed or nothing worked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("torches", nargs="+")
    parser.add_argument("--matrix", action="store_true", help="try every Python, not only this one")
    asked = parser.parse_args()
    (wheel,), (source,) = asked.dist.glob("*.whl"), asked.dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        wrong = faults(archive.namelist(), wheel.stat().st_size)
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wrong += [f"{name} is missing in {source.name}" for name in ("LICENSE", "README.md", "pyproject.toml") if name not in inside]
    lines = [f"{wheel.name} has {wheel.stat().st_size:,} bytes, {source.name} {source.stat().st_size:,}", *wrong]
    pythons = {name: can_run(name) for name in PYTHONS} if asked.matrix else {sys.executable: ""}
    outcomes = []
    for python, why in pythons.items():
        for torch in asked.torches if not why else ():
            outcomes.append(attempt(python, torch, wheel))
            lines.append(f"{Path(python).name} with torch {torch}: {outcomes[-1]}")
        if why:
            lines.append(f"{python} {why}")
    print("\n", *lines, sep="\n")  # noqa: T201
    works = any(outcome.startswith("works") for outcome in outcomes)
    return int(bool(wrong) or not works or any(outcome.startswith("failed") for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
