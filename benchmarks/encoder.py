"""Is a model that starts from an encoder better on small tables than one from random weights? Validation rows choose; test rows are kept apart.

    python benchmarks/encoder.py --data FOLDER --encoder dss=ENCODER --encoder wide=OTHER --work WORK --processes 8
    python benchmarks/encoder.py --work WORK --table           # what the validation rows say
    python benchmarks/encoder.py --work WORK --table --test    # what the test rows say, after the choice
    python benchmarks/encoder.py --data FOLDER --work WORK --beside    # forests and Gaussian processes for the same rows, alone and together with each model

The folder holds ``esol_splits.csv``, ``lipophilicity_splits.csv`` and ``moleculeace.csv.xz``. A tenth of the training rows of a set, drawn with a fixed
seed, is the judge, and the model of the last epoch is taken. WORK/validation-*.jsonl has the errors on these rows, and WORK/test-*.jsonl those on test
rows, which nothing here reads without --test; both have all predictions, too. The same command continues where it was stopped; models from encoders come
first, and of these seed by seed.
"""

import argparse
import csv
import json
import lzma
import math
import random
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from reign.data import GraphPack, Problem
from reign.disk import read_tensors, write_tensors
from reign.experiments import find_recipe
from reign.train import fit
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric, make_fabric
from reign.train.runs.build import make_model, model_of, start_from
from reign.train.runs.jobs import JobThreads
from reign.train.settings.config import Recipe, TrainingConfig

Settings = dict[str, Any]
HELD, SEED = 0.1, 0  # share of the training rows that judge, and the seed that draws them


def setting(epochs: int, lr: float, average: float, **others: Any) -> Settings:
    """Settings of a training."""
    return {"epochs": epochs, "average": average, "optimiser": {"lr": lr}, **others}


FROM_ENCODER = {  # how a model goes on from the weights of an encoder
    "fast": setting(12, 1e-3, 2),
    "long": setting(20, 5e-4, 3),
}
if "freeze_epochs" in TrainingConfig.model_fields:
    FROM_ENCODER["frozen"] = setting(14, 1e-3, 2, freeze_epochs=3, unfrozen_lr=0.5)


# -- the sets: graphs and labels in a file each, so that no process reads SMILES ----------------------------------------------


Row = tuple[str, str, bool, int]  # SMILES, label, whether it may be learned, whether it is on a cliff


def tables(data: Path) -> dict[str, list[Row]]:
    """The rows of all sets."""
    found: dict[str, list[Row]] = defaultdict(list)
    with lzma.open(data / "moleculeace.csv.xz", "rt") as file:
        for row in csv.DictReader(file):
            found[row["set"]].append((row["smiles"].strip(), row["y"], row["split"] == "train", int(row["cliff"])))
    for name, target, splits in (("esol", "logSolubility", 3), ("lipophilicity", "exp", 1)):
        with (data / f"{name}_splits.csv").open() as file:
            rows = list(csv.DictReader(file))
        for s in range(splits):
            found[f"{name}-{s}"] = [(row["smiles"].strip(), row[target], row[f"split{s}"] != "test", 0) for row in rows]
        for s in range(5):  # samples as small as FreeSolv
            learned = set(random.Random(s).sample(range(len(rows)), 500))
            found[f"{name}-small-{s}"] = [(row["smiles"].strip(), row[target], r in learned, 0) for r, row in enumerate(rows)]
    return found


def prepare(data: Path, folder: Path) -> None:
    """Write the graphs of all sets."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables(data).items():
        _write(folder / f"{name}.safetensors", rows)


def _write(file: Path, rows: list[Row]) -> None:
    from reign.data.molecules import graphs_of, read_many

    if file.is_file():
        return
    graphs, wrong = graphs_of(*read_many([row[0] for row in rows]))
    kept = [r for r in range(len(rows)) if r not in wrong]
    for r in kept:
        graphs[r].y = torch.tensor([[float(rows[r][1])]])  # type: ignore[union-attr]
    pack = GraphPack.of([graphs[r] for r in kept])
    assert pack.edge_attr is not None
    assert pack.y is not None
    tensors = {"x": pack.x.to(torch.uint8), "edge_index": pack.edge_index.short(), "edge_attr": pack.edge_attr.to(torch.uint8)}
    tensors |= {"y": pack.y, "node_ptr": pack.node_ptr, "edge_ptr": pack.edge_ptr}
    tensors |= {"learn": torch.tensor([rows[r][2] for r in kept]), "cliff": torch.tensor([rows[r][3] for r in kept])}
    write_tensors(file, tensors)
    print(f"{file.stem}: {len(kept)} molecules, {len(wrong)} left out", flush=True)


@cache
def load(file: Path) -> tuple[Problem, torch.Tensor]:
    """A set, and which of its molecules are on a cliff."""
    t, _ = read_tensors(file)
    pack = GraphPack(t["x"].long(), t["edge_index"].long(), t["edge_attr"].long(), t["y"], t["node_ptr"], t["edge_ptr"])
    learn, test = t["learn"].nonzero().flatten(), (~t["learn"]).nonzero().flatten()
    learn = learn[torch.randperm(learn.numel(), generator=torch.Generator().manual_seed(SEED))]
    held = max(1, round(HELD * learn.numel()))
    splits = {"train": learn[held:].sort().values, "val": learn[:held].sort().values, "test": test}
    return Problem(file.stem, pack, splits, "regression", ["y"], "atom", "bond"), t["cliff"].bool()


# -- one model of one set --------------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """One training; as a job of ``JobThreads``."""

    file: Path
    start: str
    seed: int
    settings: tuple[Settings, Settings]
    work: Path
    number: int
    until: float
    error: BaseException | None = None

    @property
    def label(self) -> str:
        """A short name."""
        return f"{self.file.stem} {self.start} {self.seed}"

    @property
    def unit(self) -> tuple[int, Path, str]:
        """Trainings of the same unit have the same graphs and the same architecture."""
        return self.seed, self.file, self.start.split(":")[0]

    def recipe(self) -> Recipe:
        """The settings: those of tables from random weights, with the changes of the start."""
        model, train = self.settings
        return find_recipe("molecules", {"data": {"path": "x"}, "model": model, "train": train})[0]

    def try_run(self, fabric: Fabric, callback: Callback) -> None:
        """Train the model, and write its errors. Nothing is done after the end of the time."""
        if time.time() > self.until:
            return
        try:
            began = time.monotonic()
            recipe, (problem, cliff) = self.recipe(), load(self.file)
            model = make_model(recipe.model, problem, self.seed, None)
            start_from(model, recipe.train, problem, self.seed)
            _, out = fit(model, problem, recipe.train, seed=self.seed, fabric=fabric, callback=callback)
            about = {"set": self.file.stem, "start": self.start, "seed": self.seed, "seconds": round(time.monotonic() - began, 2)}
            write_errors(self.work, self.number, about, problem, cliff, {split: out[split].cpu() for split in ("val", "test")})
        except (ValueError, OSError, RuntimeError) as error:
            self.error = error
            print(f"{self.label}: {error!r:.300}", flush=True)


def write_errors(
    work: Path, number: int, about: Settings, problem: Problem, cliff: torch.Tensor, out: dict[str, torch.Tensor]
) -> None:
    """Add the predictions and errors of a model on validation rows and on test rows to their files."""
    for what, split in (("validation", "val"), ("test", "test")):
        ids, values = problem.splits[split], out[split].double().flatten()
        errors = values - problem.y[ids].double().flatten()
        row = {**about, "rmse": _rmse(errors), **({"cliff": _rmse(errors[cliff[ids]])} if split == "test" else {})}
        with (work / f"{what}-{number}.jsonl").open("a") as file:
            file.write(json.dumps({**row, "predicted": [round(value, 4) for value in values.tolist()]}) + "\n")


def _rmse(errors: torch.Tensor) -> float:
    return math.sqrt(float(errors.square().mean())) if errors.numel() else math.nan


def run(trials: list[Trial], device: str, threads: int) -> int:
    """Train some models, in a process of its own. Return the number of failures."""
    fabric = make_fabric("32-true", device)
    if fabric.device.type == "cuda":
        JobThreads(trials, fabric, Callback(), threads).run()  # type: ignore[arg-type]
    else:
        for trial in trials:
            trial.try_run(fabric, Callback())
    return sum(trial.error is not None for trial in trials)


# -- all of them -----------------------------------------------------------------------------------------------------------


def read(work: Path, what: str) -> list[Settings]:
    """All rows of one kind."""
    return [json.loads(line) for file in sorted(work.glob(f"{what}-*.jsonl")) for line in file.read_text().splitlines()]


def plan(args: argparse.Namespace) -> list[Trial]:
    """The models that are still to train: those from encoders first, seed by seed, and of these the largest sets of MoleculeACE first."""
    starts: dict[str, tuple[Settings, Settings]] = {}
    for text in args.encoder:
        name, _, folder = text.partition("=")
        own = model_of(Path(folder))
        starts |= {
            f"{name}:{how}": (own, {"checkpoint": str(Path(folder).absolute()), **train})
            for how, train in FROM_ENCODER.items()
            if how in (args.how or FROM_ENCODER)
        }
        if args.controls:  # the same model from random weights
            starts[f"{name}:scratch"] = (own, {})
    if not args.no_scratch:
        starts["scratch"] = ({}, {})
    if args.epochs is not None:
        starts = {name: (own, {**train, "epochs": args.epochs, "freeze_epochs": None}) for name, (own, train) in starts.items()}
    done = {(row["set"], row["start"], row["seed"]) for row in read(args.work, "validation")}
    files = files_of(args)
    until = time.time() + 60 * args.minutes
    return [
        Trial(file, start, seed, settings, args.work, 0, until)
        for start, settings in starts.items()
        for seed in range(args.seeds)
        for file in files
        if (file.stem, start, seed) not in done
    ]


def files_of(args: argparse.Namespace) -> list[Path]:
    """The files of the sets: those of MoleculeACE first, and the largest first."""
    files = sorted((args.work / "sets").glob("*.safetensors"), key=lambda f: (not f.stem.startswith("CHEMBL"), -f.stat().st_size))
    return [file for file in files if (file.stem in args.sets if args.sets else "-small-" not in file.stem)]


def partners(args: argparse.Namespace) -> None:
    """The errors of a forest and a Gaussian process on the same rows, and of their means with each model, as ``--ensemble-with`` predicts."""
    from reign.train.predict.ensemble import KINDS
    from reign.train.predict.forest import describe
    from reign.train.settings.config import DataConfig

    rows = tables(args.data)
    config = DataConfig.model_validate({"path": "x"})
    for file in files_of(args):
        done = {(row["start"], row["seed"]): row for row in read(args.work, "test") if row["set"] == file.stem}
        problem, cliff = load(file)
        if missing := [name for name in KINDS if (name, 0) not in done]:
            if len(rows[file.stem]) != len(problem.graphs):
                raise ValueError(f"{file.stem} has {len(rows[file.stem])} rows and {len(problem.graphs)} graphs.")
            x = describe(problem.graphs, [[row[0] for row in rows[file.stem]]], config, Callback())
            for name in missing:
                began = time.monotonic()
                made = KINDS[name].fit(x[problem.splits["train"]], problem, problem.splits["train"])
                out = {split: made(x[problem.splits[split]]) for split in ("val", "test")}
                about = {"set": file.stem, "start": name, "seed": 0, "seconds": round(time.monotonic() - began, 2)}
                write_errors(args.work, 1000, about, problem, cliff, out)
                print(about, flush=True)
        values = {
            split: {
                (row["start"], row["seed"]): torch.tensor(row["predicted"])
                for row in read(args.work, what)
                if row["set"] == file.stem
            }
            for what, split in (("validation", "val"), ("test", "test"))
        }
        for start, seed in [place for place in values["test"] if place[0] not in KINDS and "+" not in place[0]]:
            for beside in (["forest"], ["gp"], ["forest", "gp"]):
                if (both := "+".join([start, *beside]), seed) not in done:
                    means = {s: torch.stack([of[start, seed], *(of[b, 0] for b in beside)]).mean(0) for s, of in values.items()}
                    write_errors(args.work, 1000, {"set": file.stem, "start": both, "seed": seed}, problem, cliff, means)


def table(work: Path, test: bool) -> None:
    """The mean errors of each start over the sets that all starts have, with the deviation over seeds, and its mean rank; splits of a set count as one set."""
    rows = read(work, "test" if test else "validation")
    starts = list(dict.fromkeys(row["start"] for row in rows))
    for key in ("rmse", "cliff") if test else ("rmse",):
        found: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            name = row["set"] if row["set"].startswith("CHEMBL") else row["set"].rsplit("-", 1)[0]
            if not math.isnan(row[key]):
                found[name, row["start"]][row["seed"]].append(row[key])
        names = sorted({name for name, _ in found})
        whole = [name for name in names if all((name, start) in found for start in starts)]
        ace = [name for name in whole if name.startswith("CHEMBL")]
        others = [name for name in whole if name not in ace]
        means = {place: mean(map(mean, seeds.values())) for place, seeds in found.items()}
        print(f"\n{key} of {'test' if test else 'validation'} rows; means over {len(ace)} sets of MoleculeACE, and of the others")
        print(
            f"{'start':<24}{'models':>8}{'MoleculeACE':>13}{'seeds':>7}{'deviation':>11}{'rank':>7}"
            + "".join(f"{o:>16}" for o in others)
        )
        for start in starts:
            models = sum(len(values) for (_, of), seeds in found.items() if of == start for values in seeds.values())
            common = set.intersection(*(set(found[name, start]) for name in ace)) if ace else set()
            each = [mean(mean(found[name, start][seed]) for name in ace) for seed in sorted(common)]
            ranks = [sum(means[name, other] < means[name, start] for other in starts) + 1 for name in ace]
            shown = f"{mean(means[name, start] for name in ace):>13.4f}" if ace else f"{'':>13}"
            shown += f"{len(each):>7}" + (f"{stdev(each):>11.4f}" if len(each) > 1 else f"{'':>11}")
            shown += f"{mean(ranks):>7.2f}" if ace else f"{'':>7}"
            print(f"{start:<24}{models:>8}{shown}" + "".join(f"{means[name, start]:>16.4f}" for name in others))


def main() -> None:
    """Compare the starts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder of the tables")
    parser.add_argument("--work", type=Path, required=True, help="the folder of graphs and results")
    parser.add_argument("--encoder", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument(
        "--how", nargs="*", choices=list(FROM_ENCODER), help="how models go on from an encoder; all ways if not given"
    )
    parser.add_argument(
        "--sets", nargs="*", help="some sets, as esol-0 CHEMBL1862_Ki, or esol-small-0, 500 rows of which are for learning"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=3, help="models that a process trains at once on a GPU")
    parser.add_argument("--minutes", type=float, default=1e6, help="no model starts later")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--no-scratch", action="store_true")
    parser.add_argument("--controls", action="store_true", help="train the models of the encoders from random weights, too")
    parser.add_argument("--epochs", type=int, help="epochs of all models, to try this program")
    parser.add_argument(
        "--beside", action="store_true", help="fit forests and Gaussian processes, and average them with the models that are there"
    )
    parser.add_argument("--table", action="store_true", help="only print what was found")
    parser.add_argument("--test", action="store_true", help="with --table: print the errors on test rows")
    args = parser.parse_args()
    if args.beside:
        partners(args)
    elif not args.table:
        if args.data is not None:
            prepare(args.data, args.work / "sets")
        trials, began = plan(args), time.monotonic()
        first = max((int(file.stem.split("-")[1]) for file in args.work.glob("validation-*.jsonl")), default=-1) + 1
        units = list(dict.fromkeys(trial.unit for trial in trials))
        shares: list[list[Trial]] = [[] for _ in range(min(args.processes, len(units)))]
        for (
            trial
        ) in trials:  # every process has a file of its own, and all models of a set and an architecture, which share the subgraphs
            share = units.index(trial.unit) % len(shares)
            trial.number = first + share
            shares[share].append(trial)
        print(f"{len(trials)} models", flush=True)
        with ProcessPoolExecutor(max(1, len(shares)), get_context("spawn")) as pool:
            for future in as_completed([pool.submit(run, share, args.device, args.threads) for share in shares]):
                print(f"a process is done after {time.monotonic() - began:.0f} s, with {future.result()} failures", flush=True)
    table(args.work, args.table and args.test)


if __name__ == "__main__":
    main()
