"""What a move or a merge of modules must not change, on any machine: names, options, files, weights and numbers.

``frozen.json`` next to this file holds the facts. After a change that is meant, ``python tests/house/test_frozen.py --write`` writes them anew and prints
what is different; without ``--write`` it only prints. Weights follow from their names, and not from a generator, so that any version of torch has the
same numbers. The names of ``reign.bags`` and ``reign.kernels`` are internal and are not among the facts.
"""

import argparse
import csv
import difflib
import json
import math
import os
import pkgutil
import re
import sys
import tempfile
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

import reign

FILE = Path(__file__).parent / "frozen.json"
CLOSE = 1e-12
INTERNAL = ("reign.bags", "reign.kernels", "reign.train.predict", "reign.train.runs")
REGISTRIES = {
    "data sets": ("reign.data", "DATASETS"),
    "encoders": ("reign.nn", "CONVS"),
    "families": ("reign.theory", "FAMILIES"),
    "losses": ("reign.train.settings.losses", "LOSSES"),
    "metrics": ("reign.train.settings.metrics", "METRICS"),
    "models": ("reign.nn", "MODELS"),
    "optimisers": ("reign.train.settings.optim", "OPTIMISERS"),
    "policies": ("reign.policies", "POLICIES"),
    "schedules": ("reign.train.settings.optim", "SCHEDULES"),
    "terms": ("reign.nn", "TERMS"),
}


# -- names and options ---------------------------------------------------------------------------------------------------------


def public_names() -> dict[str, str]:
    """What every package exports."""
    found = {"reign": " ".join(reign.__all__)}
    for package in pkgutil.walk_packages(reign.__path__, "reign."):
        if package.ispkg and not package.name.startswith(INTERNAL):
            found[package.name] = " ".join(sorted(getattr(import_module(package.name), "__all__", [])))
    return found


def registered() -> dict[str, str]:
    """All entries of all registries, in their order."""
    return {what: " ".join(getattr(import_module(module), name)) for what, (module, name) in REGISTRIES.items()}


def options() -> dict[str, list[str]]:
    """All parameters of all commands; hidden ones are in brackets."""
    from typer.main import get_command

    from reign.cli import app

    found: dict[str, list[str]] = {}
    todo: list[tuple[str, Any]] = [("reign", get_command(app))]
    while todo:
        name, command = todo.pop()
        todo += [(f"{name} {key}", inner) for key, inner in getattr(command, "commands", {}).items()]
        rows = []
        for p in command.params:
            text = " ".join([*p.opts, *p.secondary_opts, *(["..."] if getattr(p, "multiple", False) or p.nargs != 1 else [])])
            rows.append(f"[{text}]" if getattr(p, "hidden", False) else text + (" required" if p.required else ""))
        found[name] = rows
    return dict(sorted(found.items()))


# -- models --------------------------------------------------------------------------------------------------------------------


def weights_by_name(model: torch.nn.Module) -> None:
    """Give all weights and statistics of a model values that follow from their names, such that most units are not 0."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                wave = torch.arange(value.numel(), dtype=torch.float64).mul(1.7).add(zlib.crc32(name.encode()) % 1000).sin()
                size = 1.5 / math.sqrt(value.size(-1)) if value.dim() > 1 else 0.3
                around = 1.0 if name.endswith(("norm.weight", "running_var")) else 0.3 if name.endswith("bias") else 0.0
                value.copy_(wave.mul(size).add(around).view_as(value))


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Three graphs: a circle of five nodes with a chord, a path of three and a triangle with a tail; features without equal rows."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (5, 6), (6, 7), (8, 9), (9, 10), (10, 8), (10, 11)]
    both = torch.tensor(edges + [(b, a) for a, b in edges]).t()
    x = torch.arange(36, dtype=torch.float64).mul(1.3).cos().view(12, 3)
    return x, both, torch.tensor([0] * 5 + [1] * 3 + [2] * 4)


def models() -> dict[str, dict[str, Any]]:
    """For every model its weights, and its outputs for the batch, as in evaluation and as in training, with the norm of the gradient."""
    x, edge_index, of_graph = batch()
    found = {}
    for name in reign.list_models():
        model = reign.build_model(name, 3, 8, 2, 2).double()
        weights_by_name(model)
        out = model.eval()(x, edge_index, batch=of_graph)
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        trained = model(x, edge_index, batch=of_graph)
        trained.square().sum().backward()
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None))
        found[name] = {
            "weights": _short([f"{key} {'x'.join(map(str, value.shape)) or '-'}" for key, value in model.state_dict().items()]),
            "outputs": [float(f"{v:.15g}") for v in [*out.flatten().tolist(), *trained.flatten().tolist(), norm]],
        }
    return found


def _short(keys: list[str]) -> list[str]:
    """Names that differ only in numbers between dots as one row: the numbers, and the name with # in their places."""
    rows: dict[str, list[str]] = {}
    for key in keys:
        rows.setdefault(re.sub(r"(?<=\.)\d+(?=\.)", "#", key), []).append(",".join(re.findall(r"(?<=\.)\d+(?=\.)", key)))
    return [f"{pattern} {' '.join(numbers)}".rstrip() for pattern, numbers in rows.items()]


# -- files of a run ------------------------------------------------------------------------------------------------------------


def files_of_a_run() -> dict[str, Any]:
    """The files of a small run, of its zip and of a saved model, with the keys or columns of each."""
    from commands import MOLECULES, SMALL, works

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            rows = [f"{smiles},{len(smiles)}" for smiles in MOLECULES]
            Path("mols.csv").write_text("\n".join(["smiles,size", *rows, "xyz,1"]) + "\n")
            works("train", "-i", "mols.csv", "-o", "run", "--ensemble-size", "2", "--accelerator", "cpu", *SMALL)
            works("export", "run", "-o", "model.zip")
            reign.load("run/seed-0/best").save_pretrained("saved")
            with zipfile.ZipFile("model.zip") as archive:
                archive.extractall("zip")
            return {name: _described(Path(name)) for name in ("run", "zip", "saved")}
        finally:
            os.chdir(before)


def _described(folder: Path) -> dict[str, Any]:
    return {str(file.relative_to(folder)): _inside(file) for file in sorted(folder.rglob("*")) if file.is_file()}


def _inside(file: Path) -> Any:
    if file.suffix == ".json":
        return _keys(json.loads(file.read_text()))
    if file.suffix == ".yaml":
        return _keys(yaml.safe_load(file.read_text()))
    if file.suffix == ".csv":
        with open(file, newline="") as rows:
            return " ".join(next(csv.reader(rows)))
    return ""


def _keys(value: Any) -> Any:
    """The keys of a JSON value, without the keys of lists' later entries; numbers as keys stand for all."""
    if isinstance(value, dict):
        inner = {("#" if re.fullmatch(r"\d+", key) else key): _keys(each) for key, each in value.items()}
        return inner if any(inner.values()) else " ".join(inner)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_keys(value[0])]
    return ""


# -- comparison ----------------------------------------------------------------------------------------------------------------

FACTS = {"names": public_names, "registered": registered, "options": options, "models": models, "files": files_of_a_run}


def differences(old: Any, new: Any) -> list[str]:
    """Lines that differ; numbers may differ in their last digits."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [f"{key}: {line}" for key in old for line in differences(old[key], new[key])]
    numbers = [isinstance(each, list) and bool(each) and isinstance(each[0], float) for each in (old, new)]
    if all(numbers) and len(old) == len(new):
        worst = max(abs(a - b) / max(1.0, abs(a)) for a, b in zip(old, new, strict=True))
        return [] if worst <= CLOSE else [f"numbers differ by {worst:.1e}"]
    lines = [json.dumps(each, indent=1).replace(" ", "\n" if isinstance(each, str) else " ").splitlines() for each in (old, new)]
    return [line for line in difflib.unified_diff(*lines, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, signatures_unchecked: None) -> None:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REIGN_DATA", raising=False)


@pytest.mark.parametrize("what", FACTS)
def test_it_is_as_it_was(what: str) -> None:
    assert differences(json.loads(FILE.read_text())[what], json.loads(json.dumps(FACTS[what]()))) == []


def test_a_difference_is_found() -> None:
    assert differences({"a": [1.0, 2.0], "b": "x y"}, {"a": [1.0, 2.0 + 1e-13], "b": "x y"}) == []
    assert differences({"a": [1.0, 2.0]}, {"a": [1.0, 2.0 + 1e-11]}) == ["a: numbers differ by 5.0e-12"]
    assert differences({"b": "x y"}, {"b": "x z"}) == ['b: -y"', 'b: +z"']
    assert differences({"a": {"k": ["v"]}}, {"a": {"l": ["v"]}}) == ['a: - "k": [', 'a: + "l": [']


def main() -> None:
    """Print what differs from the file, and write it anew where that is asked for."""
    parser = argparse.ArgumentParser(description="What a move of modules must not change.")
    parser.add_argument("--write", action="store_true", help="write the facts as they are now")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    os.environ |= {"REIGN_REPORT": "0"}
    os.environ.pop("REIGN_DATA", None)
    now = json.loads(json.dumps({what: make() for what, make in FACTS.items()}))
    before = json.loads(FILE.read_text()) if FILE.is_file() else {}
    for what in FACTS:
        for line in differences(before.get(what, {}), now[what]):
            print(f"{what}: {line}")  # noqa: T201
    if given.write:
        text = json.dumps(now, indent=1)
        text = re.sub(
            r"\[\s+(-?\d[^\]]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text
        )  # numbers in one line
        FILE.write_text(text + "\n")


if __name__ == "__main__":
    main()
