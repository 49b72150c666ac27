"""The defaults for tables of molecules: a search by validation rows, and the test rows of what was chosen.

    python benchmarks/molecules.py search --data FOLDER --device cuda --jobs 8 --minutes 7   # every candidate, no test row
    python benchmarks/molecules.py table                                                    # what was found so far
    python benchmarks/molecules.py final --data FOLDER                                      # test rows, once, at the end
    python benchmarks/molecules.py intervals --data FOLDER --models 3                       # do 90 % intervals cover 90 % of ESOL's test rows?

The folder holds ``esol_splits.csv``, ``lipophilicity_splits.csv`` and ``ogbg_molhiv.csv.xz``. In the search the validation rows of a split are
the judge; a ninth of its training rows says which epoch is taken, and its test rows are not even read. So a rule that chooses an epoch is
judged by rows that it has not seen, and one training serves to compare all rules. Results are kept in a JSON file after every training;
the same command goes on from there. ``final`` trains on the splits as they are, with the recipes of the package, with the settings
that were the defaults before, and with chemprop if it is installed; nothing is installed here.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
import torch

from reign.data import Ids, Problem, scaffold_split
from reign.data.molecules import Molecule, load_table
from reign.disk import write_text
from reign.experiments import find_recipe
from reign.kernels import keep_freed_memory
from reign.train import fit, load, train
from reign.train.engine.callbacks import Callback
from reign.train.engine.engine import Engine
from reign.train.engine.execution import make_fabric
from reign.train.engine.update import Average
from reign.train.predict.evaluate import describe_quality
from reign.train.runs.build import make_model
from reign.train.settings.config import ModelConfig, TrainingConfig
from reign.train.settings.losses import LOSSES, choose
from reign.train.settings.metrics import METRICS
from reign.train.settings.yaml import merge

Settings = dict[str, Any]
RESULTS = Path("results/molecules-search.json")
SAMPLE, ACTIVE = 2_000, 500  # rows of the molhiv sample, and how many of them are active; of 2,000 at random it would be seventy
SETS = {
    "esol": ("esol_splits.csv", "logSolubility", "regression"),
    "lipophilicity": ("lipophilicity_splits.csv", "exp", "regression"),
    "molhiv": ("ogbg_molhiv.csv.xz", "HIV_active", "classification"),
}
ROUNDS = [
    ("esol", 0),
    ("molhiv", 0),
    ("lipophilicity", 0),
    ("molhiv", 1),
    ("esol", 1),
    ("molhiv", 2),
    ("esol", 2),
    ("lipophilicity", 1),
]

MOST_SEEDS = 20

BEFORE: Settings = {  # the defaults for all tasks until this search
    "model": {"name": "sun", "hidden_channels": 64, "num_layers": 4, "residual": True},
    "train": {
        "epochs": 60,
        "batch_size": 50,
        "report": "last",
        "scale_targets": True,
        "optimiser": {"name": "adam", "lr": 0.001},
        "schedule": {"name": "cosine", "warmup": 0.05},
    },
}


def model(**values: Any) -> Settings:
    """A change of the model."""
    return {"model": values}


def training(lr: float | None = None, decay: float | None = None, **values: Any) -> Settings:
    """A change of the training."""
    optimiser: Settings = {} if lr is None else {"lr": lr}
    optimiser |= {} if decay is None else {"name": "adamw", "weight_decay": decay}
    return {"train": {**values, **({"optimiser": optimiser} if optimiser else {})}}


CANDIDATES: dict[str, dict[str, Settings]] = {
    "regression": {
        "as before": {},
        "lr 0.0005": training(lr=5e-4),
        "lr 0.002": training(lr=2e-3),
        "40 epochs": training(epochs=40),
        "40 epochs, lr 0.002": training(lr=2e-3, epochs=40),
        "40 epochs, lr 0.003": training(lr=3e-3, epochs=40),
        "40 epochs, lr 0.002, clipping 1": training(lr=2e-3, epochs=40, clip=1.0),
        "100 epochs": training(epochs=100),
        "weight decay 0.01": training(decay=0.01),
        "weight decay 0.1": training(decay=0.1),
        "head dropout 0.2": model(head={"dropout": 0.2}),
        "dropout 0.05": model(dropout=0.05),
        "dropout 0.1": model(dropout=0.1),
        "width 32": model(hidden_channels=32),
        "width 96": model(hidden_channels=96),
        "3 layers": model(num_layers=3),
        "5 layers": model(num_layers=5),
        "layer norm": model(norm="layer_norm"),
        "clipping 1": training(clip=1.0),
        "batches of 32": training(batch_size=32),
        "40 epochs, lr 0.002, layer norm": merge(model(norm="layer_norm"), training(lr=2e-3, epochs=40)),
        "40 epochs, lr 0.001, layer norm": merge(model(norm="layer_norm"), training(epochs=40)),
        "40 epochs, lr 0.002, 5 layers": merge(model(num_layers=5), training(lr=2e-3, epochs=40)),
        "40 epochs, lr 0.002, 6 layers": merge(model(num_layers=6), training(lr=2e-3, epochs=40)),
        "40 epochs, lr 0.002, 5 layers, layer norm": merge(model(num_layers=5, norm="layer_norm"), training(lr=2e-3, epochs=40)),
        "40 epochs, lr 0.002, batches of 32": training(lr=2e-3, epochs=40, batch_size=32),
        "50 epochs, lr 0.002, clipping 5": training(lr=2e-3, epochs=50, clip=5.0),
        "50 epochs, lr 0.002, clipping 1": training(lr=2e-3, epochs=50, clip=1.0),
        "40 epochs, lr 0.003, clipping 1": training(lr=3e-3, epochs=40, clip=1.0),
        "40 epochs, lr 0.002, clipping 1, weight decay 0.01": training(lr=2e-3, decay=0.01, epochs=40, clip=1.0),
    },
    "classification": {
        "as before": {},
        "lr 0.0005": training(lr=5e-4),
        "lr 0.0002": training(lr=2e-4),
        "30 epochs": training(epochs=30),
        "30 epochs, lr 0.0005": training(lr=5e-4, epochs=30),
        "30 epochs, width 32": merge(model(hidden_channels=32), training(epochs=30)),
        "15 epochs": training(epochs=15),
        "weight decay 0.1": training(decay=0.1),
        "weight decay 1": training(decay=1.0),
        "head dropout 0.5": model(head={"dropout": 0.5}),
        "dropout 0.1": model(dropout=0.1),
        "dropout 0.2": model(dropout=0.2),
        "dropout 0.4": model(dropout=0.4),
        "width 32": model(hidden_channels=32),
        "width 128": model(hidden_channels=128),
        "2 layers": model(num_layers=2),
        "layer norm": model(norm="layer_norm"),
        "dropout 0.2, weight decay 0.1": merge(model(dropout=0.2), training(decay=0.1)),
        "dropout 0.2, 30 epochs": merge(model(dropout=0.2), training(epochs=30)),
        "dropout 0.2, lr 0.0005": merge(model(dropout=0.2), training(lr=5e-4)),
    },
}


# -- data --------------------------------------------------------------------------------------------------------------


@cache
def whole(folder: str, name: str) -> tuple[Problem, list[dict[str, Ids]]]:
    """A table, and its three splits into train, val and test."""
    file, target, task = SETS[name]
    table = pd.read_csv(Path(folder) / file, dtype=str, keep_default_na=False)
    if name == "molhiv":
        parts = [table[table[target] == word] for word in "01"]
        table = pd.concat([part.sample(n, random_state=0) for part, n in zip(parts, (SAMPLE - ACTIVE, ACTIVE), strict=True)])
    with tempfile.TemporaryDirectory() as place:
        table.to_csv(Path(place) / f"{name}.csv", index=False)
        problem, _ = load_table(Path(place) / f"{name}.csv", ["smiles"], [target], task, split_sizes=(1.0, 0.0, 0.0))
    rows = table.iloc[[int(row) - 1 for row in problem.names or []]]
    if name != "molhiv":
        return problem, [_by_word(rows[f"split{s}"].tolist()) for s in range(3)]
    molecules = [Molecule.read(text) for text in rows["smiles"]]
    scaffolds, keys = [m.scaffold() for m in molecules], [m.canonical() for m in molecules]
    return problem, [scaffold_split(scaffolds, keys, (0.8, 0.1, 0.1), seed) for seed in range(3)]


def _by_word(words: list[str]) -> dict[str, Ids]:
    return {split: torch.tensor([i for i, word in enumerate(words) if word == split]) for split in ("train", "val", "test")}


def to_search(folder: str, name: str, split: int) -> Problem:
    """The rows of a search: most of the training rows, a ninth of them ("val") to choose an epoch, the validation rows as judge ("test").

    Where the split is by scaffold, that ninth is of other scaffolds, too.
    """
    problem, splits = whole(folder, name)
    known = splits[split]["train"]
    if name == "molhiv":
        molecules = [Molecule.read(problem.texts["smiles"][i]) for i in known.tolist()]
        parts = scaffold_split([m.scaffold() for m in molecules], [m.canonical() for m in molecules], (8 / 9, 1 / 9, 0.0), split)
        train, choice = known[parts["train"]], known[parts["val"]]
    else:
        order = known[torch.randperm(known.numel(), generator=torch.Generator().manual_seed(split))]
        train, choice = order[known.numel() // 9 :], order[: known.numel() // 9]
    return replace(problem, splits={"train": train.sort().values, "val": choice.sort().values, "test": splits[split]["val"]})


# -- search ------------------------------------------------------------------------------------------------------------


@keep_freed_memory()
def curves(folder: str, device: str, name: str, split: int, seed: int, settings: Settings, until: float) -> Settings | None:
    """Train once; after every epoch the metric and the loss of the rows that choose, and the metric of the judge, also with averaged weights. None
    if time is over."""
    problem = to_search(folder, name, split)
    values = merge(BEFORE, settings)
    config = TrainingConfig.model_validate(values["train"])
    seed = split + 100 * seed
    net = make_model(ModelConfig.model_validate(values["model"]), problem, seed=seed)
    learner = Engine(net, problem, config, seed, make_fabric(config.precision, device), Callback())
    loss = LOSSES[choose(LOSSES, config.loss, problem.task)]
    found: Settings = {"metric": [], "loss": [], "judge": [], "train_loss": []}
    steps = math.ceil(problem.splits["train"].numel() / config.batch_size)
    averages = {f"{window} epochs": Average(net, window * steps) for window in WINDOWS}
    found["averaged"] = {name: {"metric": [], "judge": []} for name in averages}
    learner.callback = _AfterSteps(averages)
    began = time.perf_counter()
    for epoch in range(config.epochs):
        found["train_loss"].append(learner.train_epoch(epoch))
        for name, average in averages.items():
            with average.shown():
                for key, split_name in (("metric", "val"), ("judge", "test")):
                    found["averaged"][name][key].append(learner.score(split_name, learner.predict(split_name)))
        out, y = learner.predict("val"), problem.y[problem.splits["val"]]
        found["metric"].append(learner.score("val", out))
        found["loss"].append(float(loss.sum(out, y)) / y.numel())
        found["judge"].append(learner.score("test", learner.predict("test")))
        if time.time() > until:
            return None
    return {**found, "seconds": time.perf_counter() - began}


class _AfterSteps(Callback):
    """Takes the weights into averages after every step of training."""

    def __init__(self, averages: dict[str, Average]) -> None:
        self.averages = averages

    def batch(self, what: str, done: int, total: int) -> None:
        """A step is done."""
        if what.startswith("epoch"):
            for average in self.averages.values():
                average.update()


def key_of(task: str, candidate: str, name: str, split: int, seed: int = 0) -> str:
    """The name of a training in the file of results."""
    return f"{task} | {candidate} | {name} | {split}" + (f" | seed {seed}" if seed else "")


def search(
    data: str, device: str, jobs: int, minutes: float, file: Path, epochs: int | None, only: list[str], sets: list[str], seeds: int
) -> None:
    """Train what has not been trained yet, of some candidates and sets or of all, until time is over."""
    change = {} if epochs is None else training(epochs=epochs)
    results: Settings = json.loads(file.read_text()) if file.is_file() else {}
    until = time.time() + 60 * minutes
    left = [
        (key_of(task, candidate, name, split, seed), (data, device, name, split, seed, merge(settings, change), until))
        for seed in range(seeds)
        for name, split in ROUNDS
        for task, candidates in CANDIDATES.items()
        for candidate, settings in candidates.items()
        if SETS[name][2] == task and (not only or candidate in only) and (not sets or name in sets)
    ]
    left = [each for each in left if each[0] not in results]
    running: dict[Future[Settings | None], str] = {}
    with ProcessPoolExecutor(jobs, get_context("spawn"), _one_thread, (device,)) as pool:
        while running or (left and time.time() < until):
            while left and len(running) < jobs and time.time() < until:
                key, arguments = left.pop(0)
                running[pool.submit(curves, *arguments)] = key
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                key = running.pop(done)
                try:
                    found = done.result()
                except (ValueError, RuntimeError) as error:
                    print(f"{key}: {error}", flush=True)
                    continue
                if found is not None:
                    results[key] = found
                    write_text(file, json.dumps(results))
                    print(f"{key}: {found['judge'][-1]:.4f} at the end, {found['seconds']:.0f} s, {len(left)} left", flush=True)


def _one_thread(device: str) -> None:
    torch.set_num_threads(2 if device == "cuda" else 1)


WINDOWS = (2, 5, 10)  # numbers of epochs that weights are averaged over
RULES = ("last", "best", "best, smoothed", "least loss")


def rules(found: Settings, more_is_better: bool) -> dict[str, float]:
    """What each rule to choose an epoch gives on the rows of the judge."""
    sign = -1 if more_is_better else 1
    value = [sign * v for v in found["metric"]]
    smooth = [mean(value[max(0, e - 2) : e + 3]) for e in range(len(value))]
    chosen = (len(value) - 1, _least(value), _least(smooth), _least(found["loss"]))
    return {rule: found["judge"][epoch] for rule, epoch in zip(RULES, chosen, strict=True)}


def _least(values: list[float]) -> int:
    return min(range(len(values)), key=lambda e: (values[e] != values[e], values[e]))


def table(file: Path) -> Iterator[str]:
    """All candidates as tables in Markdown: for each set and rule the mean over splits and seeds, and how much larger it is than that of the first
    candidate at its last epoch on the same splits."""
    results: Settings = json.loads(file.read_text()) if file.is_file() else {}
    for task, candidates in CANDIDATES.items():
        metric = choose(METRICS, None, task)
        better = METRICS[metric].more_is_better
        sets = [name for name, (_, _, of) in SETS.items() if of == task]
        columns = [(name, rule) for name in sets for rule in RULES]

        def runs(of: str, name: str, split: int) -> list[Settings]:
            keys = (key_of(task, of, name, split, seed) for seed in range(MOST_SEEDS))  # noqa: B023
            return [results[key] for key in keys if key in results]

        yield f"\n{task}: {metric} on validation rows\n"
        yield "| | " + " | ".join(f"{name}, {rule}" for name, rule in columns) + " | trainings | s |"
        yield "|---" * (len(columns) + 3) + "|"
        for candidate in candidates:
            found = {n: [s for s in range(3) if runs(candidate, n, s)] for n in sets}
            if not any(found.values()):
                continue  # not tried yet
            shared = {n: [s for s in found[n] if runs("as before", n, s)] for n in sets}

            def value(name: str, rule: str, of: str, splits: list[int]) -> float:
                return mean(mean(rules(run, better)[rule] for run in runs(of, name, s)) for s in splits) if splits else math.nan  # noqa: B023

            cells = []
            for name, rule in columns:
                change = value(name, rule, candidate, shared[name]) - value(name, "last", "as before", shared[name])
                cells.append(f"{value(name, rule, candidate, found[name]):.4f} ({change:+.4f})" if shared[name] else "")
            trained = {n: [run for s in found[n] for run in runs(candidate, n, s)] for n in sets}
            seconds = sum(run["seconds"] for n in sets for run in trained[n])
            yield f"| {candidate} | " + " | ".join(cells) + f" | {' + '.join(str(len(trained[n])) for n in sets)} | {seconds:.0f} |"


def averages(file: Path) -> Iterator[str]:
    """A table of what averaged weights give, at the last epoch and at the one that is best with them: means over splits and seeds of the same
    trainings."""
    results: Settings = json.loads(file.read_text()) if file.is_file() else {}
    groups: dict[tuple[str, str, str], list[Settings]] = {}
    for key, found in results.items():
        if "averaged" in found:
            task, candidate, name = key.split(" | ")[:3]
            groups.setdefault((task, candidate, name), []).append(found)
    yield "\nweights averaged over some epochs: metric on validation rows\n"
    yield "| set | training | epoch | not averaged | " + " | ".join(f"{window} epochs" for window in WINDOWS) + " | trainings |"
    yield "|---" * (len(WINDOWS) + 5) + "|"
    for (task, candidate, name), runs in groups.items():
        sign = -1 if METRICS[choose(METRICS, None, task)].more_is_better else 1
        curves = [[run, *(run["averaged"][f"{window} epochs"] for window in WINDOWS)] for run in runs]
        for rule in ("last", "best"):
            means = [mean(_at(curve, rule, sign) for curve in same) for same in zip(*curves, strict=True)]
            yield f"| {name} | {candidate} | {rule} | " + " | ".join(f"{value:.4f}" for value in means) + f" | {len(runs)} |"


def _at(curve: Settings, rule: str, sign: int) -> float:
    return float(curve["judge"][-1 if rule == "last" else _least([sign * v for v in curve["metric"]])])


# -- test rows ---------------------------------------------------------------------------------------------------------


def trained(folder: str, device: str, name: str, split: int, settings: Settings | None) -> tuple[float, float]:
    """The metric of the test rows, and seconds; with the package's recipe if no settings are given."""
    problem, splits = whole(folder, name)
    problem = replace(problem, splits=splits[split])
    if settings is None:
        recipe = "molecules" if problem.task == "regression" else "molecules-classification"
        settings = find_recipe(recipe, {"data": {"path": "unused.csv", "task": problem.task}})[0].model_dump()
    config = TrainingConfig.model_validate(settings["train"])
    net = make_model(ModelConfig.model_validate(settings["model"]), problem, seed=0)
    began = time.perf_counter()
    result, _ = fit(net, problem, config, seed=0, fabric=make_fabric(config.precision, device))
    return result[result["report"]]["test"], time.perf_counter() - began


def chemprop(folder: str, device: str, name: str, split: int) -> tuple[float, float]:
    """The same by chemprop's command with its own defaults."""
    problem, splits = whole(folder, name)
    with tempfile.TemporaryDirectory() as place:
        words = ["" for _ in problem.graphs.sizes]
        for word, ids in splits[split].items():
            for i in ids.tolist():
                words[i] = word
        pd.DataFrame({"smiles": problem.texts["smiles"], "y": problem.y[:, 0], "split": words}).to_csv(
            f"{place}/t.csv", index=False
        )
        command = ["chemprop", "train", "-i", f"{place}/t.csv", "-s", "smiles", "--target-columns", "y", "-t", problem.task]
        command += ["--splits-column", "split", "--accelerator", "gpu" if device == "cuda" else "cpu", "-o", f"{place}/run"]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        seconds = time.perf_counter() - began
    found = dict(re.findall(r"test/(mse|rmse|roc)\D+(\d+\.\d+)", done.stdout + done.stderr))
    if "mse" in found:  # its loss, which is all that it prints for regression
        return math.sqrt(float(found["mse"])), seconds
    return float(found.get("roc") or found.get("rmse") or "nan"), seconds


def final(data: str, device: str, only: list[str]) -> None:
    """Test rows of the defaults, of the defaults before, and of chemprop where there is one."""
    ways: dict[str, Callable[[str, int], tuple[float, float]]] = {
        "reign": lambda name, split: trained(data, device, name, split, None),
        "reign, as before": lambda name, split: trained(data, device, name, split, BEFORE),
    }
    if shutil.which("chemprop"):
        ways["chemprop"] = lambda name, split: chemprop(data, device, name, split)
    print("| set | way | split 0 | split 1 | split 2 | mean | seconds a split |\n|---|---|---|---|---|---|---|")
    for name in only or SETS:
        for way, run in ways.items():
            found = [run(name, split) for split in range(3)]
            values = " | ".join(f"{value:.4f}" for value, _ in found)
            print(f"| {name} | {way} | {values} | {mean(v for v, _ in found):.4f} | {mean(s for _, s in found):.0f} |", flush=True)


def intervals(data: str, device: str, models: int) -> None:
    """The coverage of 90 % intervals on the test rows of ESOL, of each split and of all together, with the defaults and an ensemble."""
    file, target, _ = SETS["esol"]
    inside = labels = 0
    with tempfile.TemporaryDirectory() as place:
        for split in range(3):
            table = {"path": str(Path(data).absolute() / file), "target_columns": [target], "splits_column": f"split{split}"}
            recipe, _ = find_recipe("molecules", {"data": table, "seeds": list(range(models))})
            folder = Path(place) / f"split-{split}"
            train(recipe, folder, fabric=make_fabric(recipe.train.precision, device))
            [quality] = load(folder, device=device).evaluate("test")["uncertainty"][target].values()
            print(f"split {split}: {describe_quality(quality)}", flush=True)
            inside, labels = inside + round(quality["coverage"] * quality["labels"]), labels + quality["labels"]
    print(f"all splits: {inside} of {labels} test labels are inside of their interval, {inside / labels:.1%}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Defaults for tables of molecules.")
    parser.add_argument("mode", choices=["search", "table", "final", "intervals"])
    parser.add_argument("--data", default=os.environ.get("REIGN_DATA", "."), help="folder of the tables")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--jobs", type=int, default=2, help="trainings at once, each in a process")
    parser.add_argument("--minutes", type=float, default=1e6, help="start nothing after this time")
    parser.add_argument("--epochs", type=int, help="of search: another number of epochs for all, to try the script")
    parser.add_argument("--only", nargs="*", default=[], help="of search: only these candidates")
    parser.add_argument("--seeds", type=int, default=1, help="of search: trainings of each split")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--models", type=int, default=3, help="of intervals: number of models of the ensemble")
    parser.add_argument("--sets", nargs="*", default=[], choices=list(SETS), help="of search and final: only these")
    given = parser.parse_args()
    if given.mode == "search":
        search(
            given.data, given.device, given.jobs, given.minutes, given.results, given.epochs, given.only, given.sets, given.seeds
        )
    if given.mode == "final":
        final(given.data, given.device, given.sets)
    elif given.mode == "intervals":
        intervals(given.data, given.device, given.models)
    else:
        print("\n".join([*table(given.results), *averages(given.results)]))


if __name__ == "__main__":
    main()
