"""Bad tables, recipes, folders and calls, each made from a seed."""

import copy
import gzip
import json
import random
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from canary import bombs

from reign.nn import list_models
from reign.policies import list_policies

GOOD = ["CC", "CCO", "c1ccccc1", "C[NH3+].[Cl-]", "C/C=C/C", "[2H]C", "N[C@@H](C)C(=O)O", " CCC "]
BAD = [
    "",
    "xyz",
    "[#119]",
    "C1CC",
    "C(C)(C)(C)(C)C",
    "Cc1cccc(NC(=O)Cc2csc(N3CCCn3=O)n2)c1",
    "C\0C",
    "=",
    "[[/x]]",
    "CC CC",
    "\u200b",
    "é",
    "*",
    "[H]",
]
CHARACTERS = "CNOcnos[]()=#@+-123%./\\ *"
VALUES: list[Any] = [None, True, 0, -1, 1, 3, 10**30, 0.5, -2.5, 1e308, float("nan"), float("inf"), "", "x", "nm", "[/x]", [], [1], ["a", None], {}, {"a": 1}]  # fmt: skip
FIELDS = [
    "data.name",
    "data.path",
    "data.options",
    "data.options.root",
    "data.targets",
    "data.num_train",
    "data.limit",
    "data.smiles_columns",
]
FIELDS += [
    "data.target_columns",
    "data.task",
    "data.split",
    "data.split_sizes",
    "data.splits_column",
    "data.split_seed",
    "data.splits_file",
    "data.group_column",
    "data.time_column",
    "data.ignore_columns",
    "data",
    "model",
    "train",
]
FIELDS += [
    "model.name",
    "model.policy",
    "model.hidden_channels",
    "model.num_layers",
    "model.act",
    "model.norm",
    "model.conv",
    "model.jk",
    "model.domain",
]
FIELDS += [
    "model.in_channels",
    "model.out_channels",
    "model.layer",
    "model.pooling",
    "model.dropout",
    "model.residual",
    "model.node_encoder",
]
FIELDS += [
    "model.edge_encoder",
    "model.edge_dim",
    "model.expansion",
    "model.train_eps",
    "model.transform",
    "model.terms",
    "model.task_level",
]
FIELDS += [
    "train.epochs",
    "train.batch_size",
    "train.loss",
    "train.metric",
    "train.report",
    "train.optimiser",
    "train.optimiser.lr",
    "train.schedule",
]
FIELDS += [
    "train.precision",
    "train.max_pairs",
    "train.clip",
    "train.task_weights",
    "train.freeze_epochs",
    "train.unfrozen_lr",
    "train.accumulate",
    "seeds",
    "folds",
    "extends",
    "rows",
    "settings",
    "nothing",
    "",
]


def any_value(rng: random.Random, *more: Any) -> Any:
    """A value of the wrong kind for most places; a copy, as others may be put into it."""
    return copy.deepcopy(rng.choice([*VALUES, *more]))


def word(rng: random.Random, characters: str = string.printable) -> str:
    return "".join(rng.choice(characters) for _ in range(rng.randint(0, 12)))


def smiles(rng: random.Random) -> str:
    kind = rng.random()
    return rng.choice(GOOD) if kind < 0.5 else rng.choice(BAD) if kind < 0.8 else word(rng, CHARACTERS)


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set(',;\t"\r\n') or cell != cell.strip() else cell


def table(rng: random.Random, file: Path) -> list[str] | None:
    """Write a table, good or bad; the SMILES of all of its rows in order, or None if it is too broken to say."""
    cells = [smiles(rng) for _ in range(rng.randint(0, 6))]
    header, more = "smiles", [[word(rng) for _ in cells] for _ in range(rng.randint(0, 2))]
    if rng.random() < 0.1:
        header = rng.choice(["Smiles", "smiles,smiles", "", "smiles,size_pred", "smiles,error", "\0", '"smiles'])
    sign = rng.choice([",", ",", ",", ";", "\t"])
    lines = [sign.join([header, *(f"c{i}" for i in range(len(more)))])]
    lines += [sign.join(map(quoted, row)) for row in zip(cells, *more, strict=True)]
    end = rng.choice(["\n", "\n", "\r\n"])
    content = (end.join(lines) + rng.choice(["", end])).encode(rng.choice(["utf-8", "utf-8", "utf-16"]), errors="replace")
    known: list[str] | None = cells if header == "smiles" else None
    if any(set(cell) & set("\r\n") for column in more for cell in column) or (not more and cells[-1:] == [""]):
        known = None  # a quoted field of several lines may look like rows, and an empty last line like none
    harm = rng.random()
    if harm < 0.1 and len(lines) > 2:  # a quote that somebody forgot to close: refused, or every line comes back
        lines[rng.randrange(1, len(lines))] = '"' + word(rng, CHARACTERS) + sign * len(more)
        content, known = end.join(lines).encode(errors="replace"), None
    elif harm < 0.2:
        place = rng.randint(0, len(content))
        content, known = content[:place] + rng.randbytes(rng.randint(1, 4)) + content[place:], None
    elif harm < 0.25:
        content, known = rng.randbytes(rng.randint(0, 200)), None
    elif harm < 0.3 and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        content = b"\xef\xbb\xbf" + content
    if file.suffix == ".gz":
        content = gzip.compress(content)
        if rng.random() < 0.3:
            content, known = content[: rng.randint(0, len(content))], None
    file.write_bytes(content)
    return known


def settings(rng: random.Random, table_file: Path, canary: Path) -> bytes:
    """A recipe, good or bad, as YAML."""
    out: dict[str, Any] = {
        "data": {"path": str(table_file), "target_columns": ["size"]},
        "model": {"name": "ds", "policy": "nm", "hidden_channels": 2, "num_layers": 1},
        "train": {"epochs": 1},
    }
    for _ in range(rng.randint(1, 3)):
        *way, last = rng.choice(FIELDS).split(".")
        place: Any = out
        for part in way:
            place = place.setdefault(part, {}) if isinstance(place, dict) else {}
        if isinstance(place, dict):
            names = {"name": [*list_models(), "csl", "csv"], "policy": list_policies(), "path": [str(table_file), "/nowhere", "."]}
            place[last] = rng.choice(names[last]) if last in names and rng.random() < 0.6 else any_value(rng, word(rng))
    text = yaml.safe_dump(out).encode(errors="replace")
    if rng.random() < 0.1:
        text = rng.choice(
            [bombs(canary)["yaml"], b"data: " + bombs(canary)["yaml"], rng.randbytes(50), b"a: &a [*a]", b"", b"[" * 999]
        )
    elif rng.random() < 0.1:
        place = rng.randint(0, len(text))
        text = text[:place] + word(rng).encode() + text[place:]
    return text


def harmed(rng: random.Random, run: Path, copy: Path, canary: Path) -> tuple[Path, str]:
    """A copy of a run in which one file is damaged, wrong or a bomb; and what was done."""
    shutil.copytree(run, copy)
    file = rng.choice(sorted(file for file in copy.rglob("*") if file.is_file()))
    content = file.read_bytes()
    ways: dict[str, Callable[[], bytes | None]] = {
        "cut": lambda: content[: rng.randint(0, len(content))],
        "flipped": lambda: _flipped(rng, content),
        "bomb": lambda: rng.choice(list(bombs(canary).values())),
        "noise": lambda: rng.randbytes(rng.randint(0, 300)),
        "gone": lambda: None,
        "value": lambda: _other_value(rng, content),
    }
    how = rng.choice([*ways, "value", "value"])
    made = ways[how]()
    file.unlink()
    if made is not None:
        file.write_bytes(made)
    if rng.random() < 0.5:
        for name in ("summary.json", *(["seed-0/result.json"] if rng.random() < 0.5 else [])):
            (copy / name).unlink(missing_ok=True)
    return file.relative_to(copy), how


def _flipped(rng: random.Random, content: bytes) -> bytes:
    out = bytearray(content)
    for _ in range(rng.randint(1, 5) if out else 0):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _other_value(rng: random.Random, content: bytes) -> bytes:
    """JSON or YAML with one value, somewhere, that is another one; other files become a small JSON."""
    try:
        value = yaml.safe_load(content) if b"{" not in content[:1] else json.loads(content)
    except Exception:
        value = None
    if not isinstance(value, dict) or rng.random() < 0.2:
        return json.dumps(any_value(rng)).encode()
    place: Any = value
    while True:
        key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.3:
            break
        place = place[key]
    if rng.random() < 0.3:
        del place[key]
    else:
        place[key] = any_value(rng, "../..", "/etc")
    try:
        return json.dumps(value).encode()
    except ValueError:  # it was damaged before, and contains itself
        return json.dumps(any_value(rng)).encode()


def tensor(rng: random.Random) -> Any:
    """Something that may be passed for a tensor."""
    shape = [rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randint(0, 3))]
    kind = rng.randrange(9)
    if kind == 0:
        return rng.choice([None, 1, "x", [[1.0]], torch.nan])
    dtype = rng.choice(
        [torch.float32, torch.float32, torch.float64, torch.long, torch.long, torch.bool, torch.float16, torch.complex64]
    )
    made = torch.randint(-1, 4, shape, generator=torch.Generator().manual_seed(rng.randrange(10**6))).to(dtype)
    if kind == 1:
        return made.to("meta")
    if kind == 2 and made.dim() == 2:
        return made.to_sparse()
    return made
