"""Compare two trees on this machine: ``python tests/house/compare.py OLD/src NEW/src [--only help,results,epoch,rows,launches,gpu] [--rows zinc/sun]``.

Nothing is compared with numbers from elsewhere, so everything has to be equal to the last bit. Each part runs once for each tree, in a process of its own:

    help       the help of every command
    results    what ``reign results`` prints for the records of the new tree
    epoch      weights, predictions and metrics after an epoch on a CPU: plain, in blocks with one and with two threads, resumed, two models at once, and
               a recipe of ZINC with graphs made here
    rows       for every row of every recipe, trained for an epoch on a few graphs: which layers run in blocks, and why a step cannot be captured, if so
    launches   the same rows with Triton's interpreter: which layers run fused, and every launch with its grid and sizes, in order; kernels are not executed
    gpu        on a machine with a GPU, weights, predictions and metrics of five rows after two epochs

A layer that falls back to plain operations has equal numbers and is several times slower; only ``rows`` and ``launches`` see that. Where they need something
that has no public name, they find it in whatever module it is (``PRIVATE``). It prints what is different, and ends with 1 if something is.
"""

import argparse
import csv
import difflib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).absolute().parents[2]
PARTS = ("help", "results", "epoch", "rows", "launches", "gpu")
ON_GPU = ("zinc/sun-ego", "zinc/gin", "zinc/ds-ego", "zinc/gnn-ak+", "zinc/own")
# names that a tree has in some module; after one is changed on purpose, its new name is added
PRIVATE = {"captured": ("why_not_captured", "why_not_resident"), "load": ("load_problem",)}
MOLECULES = ["C" * (6 + n % 9) + "c1ccccc1" + "O" * (n % 2) + "C(C)" * (n % 4) + "N" for n in range(64)]
SMALL = [
    "--set",
    "model.hidden_channels=32",
    "--set",
    "model.num_layers=2",
    "-b",
    "30",
    "-q",
    "--no-report",
    "--accelerator",
    "cpu",
]


# -- probes, which run in a process with one of the trees ----------------------------------------------------------------------


def probe_help(words: list[str]) -> dict[str, Any]:
    """The help of every command."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from reign.cli import app

    found, todo = {}, [([], get_command(app))]
    while todo:
        path, command = todo.pop()
        inner = getattr(command, "commands", {})
        todo += [([*path, name], each) for name, each in inner.items()]
        found[" ".join(["reign", *path])] = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "160"}).output
    return found


def probe_results(words: list[str]) -> dict[str, Any]:
    """The tables of records."""
    from typer.testing import CliRunner

    from reign.cli import app

    done = CliRunner().invoke(app, ["results", str(HERE / "results")], env={"COLUMNS": "200"})
    return {"results": done.output, "exit code": done.exit_code}


def probe_epoch(words: list[str]) -> dict[str, Any]:
    """Small runs."""
    with open("mols.csv", "w", newline="") as file:
        csv.writer(file).writerows([["smiles", "size"], *([text, len(text)] for text in MOLECULES)])
    table = ["train", "-i", "mols.csv", "--epochs", "1", *SMALL]
    _reign(*table, "--eager", "-o", "plain", threads=1)
    _reign(*table, "-o", "one-thread", threads=1)
    _reign(*table, "-o", "two-threads", threads=2)
    _reign(*table, "-o", "resumed", threads=1)
    _reign("train", "--resume", "resumed", "--epochs", "2", "-q", "--no-report", "--accelerator", "cpu", threads=1)
    _reign(*table, "-o", "two-at-once", "--ensemble-size", "2", "--jobs", "2", threads=1)
    _house()._write_zinc(Path("zinc12k.npz"))
    zinc = ["zinc/sun-ego", "--seeds", "1", "--epochs", "1", "-q", "--no-report", "--accelerator", "cpu", "--set", "data.limit=140"]
    _reign("train", *zinc, "-o", "zinc", threads=1)
    found = {name: _digest(Path(name)) for name in ("plain", "one-thread", "two-threads", "resumed", "two-at-once", "zinc")}
    assert found["plain"] != found["one-thread"], "nothing was computed in blocks"
    return found


def probe_gpu(words: list[str]) -> dict[str, Any]:
    """Five rows on a GPU."""
    import torch

    if not torch.cuda.is_available():
        return {"gpu": "none here"}
    _house()._write_zinc(Path("zinc12k.npz"))
    for n, row in enumerate(ON_GPU):
        _reign(
            "train",
            row,
            "--seeds",
            "1",
            "--epochs",
            "2",
            "-q",
            "--no-report",
            "--set",
            "data.limit=1000",
            "-o",
            f"run{n}",
            threads=2,
        )
    return {row: _digest(Path(f"run{n}")) for n, row in enumerate(ON_GPU)}


def probe_rows(words: list[str]) -> dict[str, Any]:
    """Which layers run in blocks or fused, and why steps are not captured."""
    return {name: _row(*name.split("/", 1)) for name in _names(words)}


probe_launches = probe_rows  # with TRITON_INTERPRET=1 in the environment


def _names(words: list[str]) -> list[str]:
    from reign.experiments import find_table, list_tables

    names = [f"{table}/{row}" for table in list_tables() for row in find_table(table).rows]
    return [name for name in names if not words or any(word in name for word in words)]


def _row(name: str, row: str) -> dict[str, Any]:
    """Train a row for an epoch on a few graphs with the features of the real ones, and note what happens."""
    import tiny
    from reign.experiments import find_table
    from reign.train import train

    table = find_table(name)
    start = {"train": {"epochs": 1, "batch_size": 6}, "seeds": [0]}
    if name.startswith("molecules"):
        start["data"] = {"name": "csv", "path": _labels(), "smiles_columns": ["smiles"], "target_columns": ["label"]}
        start["data"] |= {"task": "classification"} if "classification" in name else {}
    recipe = table.recipe(row, next(iter(table.columns)), start)
    more = [{"data": {"num_train": 10}} if recipe.data.num_train else {}, {"folds": 2} if recipe.folds else {}]
    recipe = table.recipe(row, next(iter(table.columns)), start, *more)
    with _replaced("load", tiny.like), _small_layers_in_blocks(), _noted() as notes, tempfile.TemporaryDirectory() as place:
        try:
            train(recipe, Path(place) / "run", fabric=_on_cpu())
        except (ValueError, RuntimeError) as error:
            notes["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
    return notes


def _on_cpu() -> Any:
    return _everywhere(("make_fabric",))[0][1](accelerator="cpu")


def _labels() -> str:
    with open("labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([["smiles", "label"], *([text, n % 2] for n, text in enumerate(MOLECULES[:20]))])
    return "labels.csv"


def _everywhere(names: tuple[str, ...]) -> list[tuple[Any, Any]]:
    """The modules of reign that have one of these names, and its values."""
    import reign.train  # noqa: F401  # so that everything that training needs is there

    modules = [m for key, m in list(sys.modules.items()) if key.startswith("reign.") and m is not None]
    found = [(m, vars(m)[name]) for m in modules for name in names if name in vars(m)]
    if not found:
        raise SystemExit(f"no module has one of the names {', '.join(names)}; add the new one to PRIVATE in {__file__}")
    return found


@contextmanager
def _replaced(what: str, value: Any) -> Iterator[Any]:
    """Replace something wherever it is, and yield what was there."""
    found = [
        (module, name, vars(module)[name])
        for module, _ in _everywhere(PRIVATE[what])
        for name in PRIVATE[what]
        if name in vars(module)
    ]
    try:
        for module, name, _ in found:
            setattr(module, name, value)
        yield found[0][2]
    finally:
        for module, name, before in found:
            setattr(module, name, before)


@contextmanager
def _small_layers_in_blocks() -> Iterator[None]:
    """Let layers of any size run in blocks of rows. Until November 2026 the bound was WORTH_BLOCKS, now it is a field of BLOCKED."""
    import reign.kernels
    import reign.nn

    if (limits := getattr(reign.kernels, "BLOCKED", None)) is not None:
        place, name = limits, "numbers"
    else:
        place, name = reign.nn._fused, "WORTH_BLOCKS"  # type: ignore[attr-defined]
    before = getattr(place, name)
    object.__setattr__(place, name, 0)  # also where it is frozen
    try:
        yield
    finally:
        object.__setattr__(place, name, before)


@contextmanager
def _noted() -> Iterator[dict[str, Any]]:
    """Note which layers call a stage of which backend, the launches of kernels, and the reason for steps that are not captured."""
    import torch

    from reign.nn import Model

    notes: dict[str, Any] = {}
    layers: dict[int, str] = {}  # the modules of all models, by their id
    calls: dict[str, Counter[str]] = {}
    kept: list[Any] = []  # so that no id is used again
    launches: list[str] = []
    folder = os.sep + "kernels" + os.sep

    def begin(model: Any) -> None:
        if not any(model is each for each in kept):
            kept.append(model)
            for name, module in model.named_modules():
                layers[id(module)] = ".".join(name.split(".")[:2]) if name.startswith("layers.") else name.split(".")[0] or "model"
            for name in sorted(set(layers.values())):
                if name.startswith("layers."):
                    calls.setdefault(name, Counter())

    def watch(frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == "forward" and folder in code.co_filename and "ctx" in code.co_varnames[:1]:
            backend = code.co_filename.split(folder)[1].split(os.sep)[0].removesuffix(".py")
            if backend in ("blocked", "fused"):
                calls.setdefault(_whose(frame, layers), Counter())[backend] += 1

    predict = Model.predict

    def noted_predict(model: Any, *args: Any, **options: Any) -> Any:
        begin(model)
        return predict(model, *args, **options)

    def noted_reason(learner: Any, *args: Any) -> Any:
        fabric = SimpleNamespace(device=torch.device("cuda"), world_size=1)
        like = _Like(learner, fabric=fabric)
        notes["captured"] = reason(like, *args) or "yes"
        return reason(learner, *args)

    Model.predict = noted_predict  # type: ignore[method-assign]
    restore = _note_launches(launches) if os.environ.get("TRITON_INTERPRET") == "1" else None
    sys.setprofile(watch)
    try:
        with _replaced("captured", noted_reason) as reason:
            yield notes
    finally:
        sys.setprofile(None)
        Model.predict = predict  # type: ignore[method-assign]
        if restore is not None:
            restore()
            notes["launches"] = [f"{len(list(same))} x {text}" for text, same in groupby(launches)]
        notes["layers"] = [
            f"{name}: {', '.join(f'{b} {n}' for b, n in sorted(c.items())) or 'plain'}" for name, c in sorted(calls.items())
        ]


def _whose(frame: Any, layers: dict[int, str]) -> str:
    """The layer that a function works for: one of the local values of a function around it, or another part of the model."""
    found = "model"
    while frame is not None:
        here = [layers[id(value)] for value in frame.f_locals.values() if id(value) in layers]
        if here and "model" not in here:  # the model itself goes through all layers
            found = next((name for name in here if name.startswith("layers.")), found if found != "model" else here[0])
            if found.startswith("layers."):
                break
        frame = frame.f_back
    return found


class _Like:
    """An object with some other attributes."""

    def __init__(self, of: Any, **other: Any) -> None:
        self._of = of
        vars(self).update(other)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def _with_zeros(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a tensor, with zeros in place of what was in memory."""

    def made(*args: Any, **options: Any) -> Any:
        return make(*args, **options).detach().zero_()

    return made


def _note_launches(launches: list[str]) -> Callable[[], None]:
    """Write launches down in place of the interpreter's work; what kernels would write is 0, as other values would depend on what was in memory."""
    import torch
    from triton.runtime import interpreter

    run, empty = interpreter.GridExecutor.__call__, (torch.empty, torch.empty_like, torch.Tensor.new_empty)

    def short(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return "x".join(map(str, value.shape)) + str(value.dtype)[5:]
        return "int" if type(value) is int else str(value)  # some are distances of addresses, which differ from run to run

    def noted(self: Any, *args: Any, **options: Any) -> None:
        grid = self.grid(options) if callable(self.grid) else self.grid
        named = [f"{key}={value}" for key, value in sorted(options.items())]
        launches.append(f"{self.fn.__name__}{tuple(grid)}: {' '.join([*map(short, args), *named])}")

    interpreter.GridExecutor.__call__ = noted
    torch.empty, torch.empty_like, torch.Tensor.new_empty = map(_with_zeros, empty)

    def restore() -> None:
        interpreter.GridExecutor.__call__ = run
        torch.empty, torch.empty_like, torch.Tensor.new_empty = empty

    return restore


# -- tools of probes -----------------------------------------------------------------------------------------------------------


def _reign(*args: str, threads: int) -> None:
    env = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "REIGN_DATA": os.getcwd(),
        "REIGN_CACHE": "cache",
    }
    done = subprocess.run([sys.executable, "-m", "reign", *args], capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"reign {' '.join(args)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _house() -> Any:
    spec = spec_from_file_location("house", HERE / "benchmarks" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _digest(run: Path) -> dict[str, str]:
    """The files of a run, each as a digest of what does not depend on the clock; of metrics the values themselves."""
    from safetensors import safe_open

    found = {}
    for file in sorted(run.rglob("*")):
        name = str(file.relative_to(run))
        if file.suffix == ".safetensors":
            with safe_open(file, "pt") as weights:
                for key in sorted(weights.keys()):
                    value = weights.get_tensor(key).contiguous()
                    found[f"{name} {key}"] = hashlib.sha256(value.view(-1).numpy().tobytes()).hexdigest()[:16]
        elif file.suffix == ".csv":
            rows = list(csv.DictReader(file.read_text().splitlines()))
            found[name] = json.dumps([{k: v for k, v in row.items() if k != "seconds"} for row in rows])
        elif file.suffix == ".json" and file.name not in ("environment.json", "memory.json"):
            found[name] = json.dumps(_timeless(json.loads(file.read_text())))
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key != "seconds"}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


# -- the comparison ------------------------------------------------------------------------------------------------------------


def ask(source: Path, part: str, words: list[str]) -> Any:
    """The answer of a tree."""
    env = os.environ | {
        "PYTHONPATH": f"{source}{os.pathsep}{source.parent / 'tests'}",
        "REIGN_REPORT": "0",
        "PYTHONWARNINGS": "ignore",
    }
    env.setdefault("OMP_NUM_THREADS", "1")
    env |= {"TRITON_INTERPRET": "1"} if part == "launches" else {}
    env.pop("TRITON_INTERPRET", None) if part != "launches" else None
    place = tempfile.mkdtemp(prefix="compare-")  # of the same length for both trees, and not named in what is compared
    try:
        command = [sys.executable, __file__, "--probe", part, "--rows", ",".join(words)]
        env |= {"REIGN_CACHE": f"{place}/cache"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, cwd=place)
        if done.returncode:
            raise SystemExit(f"{part} does not run with {source}")
        return json.loads(Path(place, "answer.json").read_text())
    finally:
        shutil.rmtree(place)


def differences(old: Any, new: Any, most: int = 12) -> list[str]:
    """Lines in which two answers differ, at most so many for each key; the layers and launches of a row, and the files of a run, are keys of their own."""
    out = []
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            inner = [name for name in {**before, **after} if before.get(name) != after.get(name)]
            for name in inner[:most]:
                out += [
                    f"{key}: {line}" if line[0] != " " else line
                    for line in differences({name: before.get(name)}, {name: after.get(name)}, most)
                ]
            out += [f"{key}: {len(inner) - most} more"] if len(inner) > most else []
            continue
        lines = difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=0)
        found = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
        out += [key, *(f"  {line[:300]}" for line in found[:most])]
        out += [f"  ... {len(found) - most} more lines"] if len(found) > most else []
    return out


def _lines(value: Any) -> list[str]:
    return value.splitlines() if isinstance(value, str) else json.dumps(value, indent=1).splitlines()


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description="Compare two trees on this machine, to the last bit.")
    parser.add_argument("trees", nargs="*", type=Path, help="two folders src")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them (all)")
    parser.add_argument("--rows", default="", help="only rows of recipes with one of these words, with commas between them")
    parser.add_argument("--probe", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    words = [word for word in given.rows.split(",") if word]
    if given.probe:
        answer = globals()[f"probe_{given.probe}"](words)
        Path("answer.json").write_text(json.dumps(answer))
        return 0
    parts = given.only.split(",")
    if len(given.trees) != 2 or (wrong := set(parts) - set(PARTS)):
        parser.error("give two folders src" if len(given.trees) != 2 else f"there is no part {', '.join(sorted(wrong))}")
    good = True
    for part in parts:
        begin = time.monotonic()
        old, new = (ask(tree.absolute(), part, words) for tree in given.trees)
        found = differences(old, new)
        verdict = "different" if found else "equal"
        for line in (f"{part}: {len(old)} compared, {verdict}, {time.monotonic() - begin:.0f} s", *found):
            print(line, flush=True)  # noqa: T201
        good = good and not found
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
