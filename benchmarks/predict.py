"""``reign predict`` for large tables: rows per second, peak memory, and going on after a kill.

    python benchmarks/predict.py speed --before OLD/src    # this tree against another one, in turns, with and without repeated molecules
    python benchmarks/predict.py large                     # memory for 30,000 and for 300,000 rows, and a kill half way

The molecules are those of ZINC-12k (``REIGN_DATA``), each written in ``--copies`` random ways, in random order. The model has the default settings for
molecules, and is trained for one epoch on a few molecules: its predictions are of no use, but take as long as others.
"""

import argparse
import csv
import filecmp
import lzma
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[1] / "src"
CHUNK = 8_192  # number of rows of a chunk


def zinc() -> list[str]:
    """The SMILES of ZINC-12k."""
    with lzma.open(Path(os.environ["REIGN_DATA"]) / "zinc12k_smiles.csv.xz", "rt") as file:
        return [row["smiles"] for row in csv.DictReader(file)]


def table(folder: Path, rows: int, copies: int) -> Path:
    """A table in which each molecule is written in several random ways."""
    from rdkit import Chem

    path = folder / f"zinc-{rows}-{copies}.csv"
    rng = random.Random(0)
    texts = zinc()
    molecules = [Chem.MolFromSmiles(text) for text in texts[: -(-rows // copies)]]
    written = []
    for row in range(rows):
        mol = molecules[row % len(molecules)]
        order = list(range(mol.GetNumAtoms()))
        rng.shuffle(order)
        written.append(Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False))
    rng.shuffle(written)
    path.write_text("name,smiles\n" + "".join(f"m{row},{text}\n" for row, text in enumerate(written)))
    return path


def model(folder: Path) -> Path:
    """A run with the default settings."""
    path, run = folder / "train.csv", folder / "run"
    path.write_text("smiles,y\n" + "".join(f"{text},{len(text)}\n" for text in zinc()[-100:]))
    reign(HERE, "train", "-i", path, "--target-columns", "y", "--epochs", 1, "--no-report", "-q", "-o", run).wait()
    return run


def reign(source: Path, *args: object) -> subprocess.Popen[bytes]:
    """Start a command of the code in a folder."""
    env = os.environ | {"PYTHONPATH": str(source)}
    return subprocess.Popen(
        [sys.executable, "-m", "reign", *map(str, args)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def seconds(source: Path, data: Path, run: Path, out: Path) -> tuple[float, float]:
    """How long a prediction takes, with its start: wall time, and CPU time of all processes."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    status = reign(source, "predict", "-i", data, "--model-paths", run, "-o", out, "-q").wait()
    assert status == 0, f"exit status {status}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def speed(args: argparse.Namespace, folder: Path) -> None:
    """This tree against another one, in turns. The best of each counts: other work on the machine only takes time away."""
    run = model(folder)
    for copies in args.copies:
        rows = args.rows or (10_000 if copies == 1 else 30_000)
        data = table(folder, rows, copies)
        found: dict[str, list[tuple[float, float]]] = {"before": [], "now": []}
        for _ in range(args.turns):
            for name, source in (("before", args.before), ("now", HERE)):
                found[name].append(seconds(source, data, run, folder / f"{name}.csv"))
                wall, cpu = found[name][-1]
                print(f"  {name}: {rows / wall:,.0f} rows/s, {cpu:,.1f} s of CPU time", flush=True)
        ratio, work = (min(t[i] for t in found["before"]) / min(t[i] for t in found["now"]) for i in range(2))
        both = [list(csv.DictReader((folder / f"{name}.csv").open())) for name in ("before", "now")]
        apart = max(abs(float(a["y_pred"]) / float(b["y_pred"]) - 1) for a, b in zip(*both, strict=True))
        print(
            f"{rows:,} rows, each molecule {copies} times: {ratio:.2f} times the rows/s, {work:.2f} times the rows in the same CPU time; "
            f"largest relative difference {apart:.1e}",
            flush=True,
        )


def large(args: argparse.Namespace, folder: Path) -> None:
    """The peak memory of all processes together for the first tenth of the rows and for all, and all rows once more with a kill half way."""
    run, peaks, most = model(folder), [], args.rows or 300_000
    whole, part = table(folder, most, args.copies[0]), folder / "part.csv"
    part.write_text("".join(whole.read_text().splitlines(keepends=True)[: most // 10 + 1]))
    for data, rows in ((part, most // 10), (whole, most)):
        start = time.perf_counter()
        peaks.append(watch(reign(HERE, "predict", "-i", data, "--model-paths", run, "-o", folder / "whole.csv", "-q")))
        print(f"{rows:,} rows: {peaks[-1] / 1e6:,.0f} MB, {rows / (time.perf_counter() - start):,.0f} rows/s", flush=True)
    print(f"{peaks[1] / peaks[0]:.3f} times the memory", flush=True)
    command = ("predict", "-i", data, "--model-paths", run, "-o", folder / "out.csv", "-q")
    process = reign(HERE, *command)
    while (chunks := len(list(folder.glob(".out.csv.reign-partial/*.part")))) * CHUNK < most / 2:
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    print(f"killed after {chunks} chunks; there is an output: {(folder / 'out.csv').exists()}", flush=True)
    watch(reign(HERE, *command))
    print(f"after the same command again, the same file: {filecmp.cmp(folder / 'out.csv', folder / 'whole.csv', shallow=False)}")


def watch(process: subprocess.Popen[bytes]) -> int:
    """The peak memory of a command in bytes."""
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(proportional, family(process.pid))))
        time.sleep(0.2)
    assert process.returncode == 0, f"exit status {process.returncode}"
    return peak


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for each in found:
        try:
            found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
        except OSError:
            continue
    return found


def proportional(pid: int) -> int:
    """The memory of a process in bytes; what processes share is divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def main() -> None:
    """Read the arguments, and measure in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "large"])
    parser.add_argument("--before", type=Path, default=HERE, help="the folder src of another tree")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--copies", type=int, nargs="+", default=[25, 1], help="number of rows of each molecule")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="reign-bench-"))
    try:
        {"speed": speed, "large": large}[args.what](args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
