"""Input that could give wrong numbers without an error. Each kind makes some from a seed, for which the right answer is known."""

import csv
import gzip
import pickle
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from canary import bombs
from rdkit import Chem
from torch_geometric.data import Data
from typer.main import get_command

from commands import MOLECULES, reign
from reign.cli import app
from reign.data import GraphDataset
from reign.data.molecules import load_table, read_table
from reign.disk import read_state, read_tensors, write_csv, write_tensors
from reign.nn import Model
from reign.smiles import Rows
from reign.smiles._reading import BlockReader
from reign.train import Predictor

CHIRAL = [
    "C[C@H](N)C(=O)O",
    "F/C=C/F",
    "C[C@H]1CC[C@@H](O)CC1",
    "O[C@H](C(=O)O)[C@@H](O)C(=O)O",
    "C[C@H](F)[C@@H](O)/C=C\\C",
    "CC[C@](C)(O)c1ccccc1",
    "C[S@](=O)c1ccccc1",
    "C1C[C@H]2CC[C@@H]1C2",
    "N[C@@H](Cc1c[nH]c2ccccc12)C(=O)O",
    "C[N+](C)(C)C.[Cl-]",
    "O=C1C=C[C@@H](Br)C1",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
]
WESTERN = ["Säure", "größe", "n° 5", "20 °C", "café", "Ethanol", "a, b", "x"]
TERMS = ["own", "local", "transpose", "root", "readout", "needle@A"]


class _Tiny(GraphDataset):
    """A few graphs whose features say which data set, options and split they belong to."""

    about, number = "some graphs", 0.0
    made: ClassVar[int] = 0

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        return {"size": 2, "seed": 0}

    def make(self) -> dict[str, list[Data]]:
        edges = torch.tensor([[0, 1], [1, 0]])
        words = [self.number, self.options["size"], self.options["seed"], self.version]
        return {
            split: [Data(x=torch.tensor([[*words, s]] * 2), edge_index=edges, y=torch.ones(1, 1))] * self.options["size"]
            for s, split in enumerate(self.splits)
        }


class _One(_Tiny):
    name, number = "one", 1.0


class _Two(_Tiny):
    name, number = "two", 2.0


class _Larger:
    """A filter that drops all graphs, or none."""

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, data: Data) -> bool:
        return int(data.num_nodes) >= self.least


def caches(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """Several data sets with one root, whose caches are exchanged, cut, or of an older version."""
    for _ in range(rng.randint(2, 6)):
        kind = rng.choice([_One, _Two])
        options = {name: rng.randint(1, 3) for name in ("size", "seed") if rng.random() < 0.4}
        least, split = rng.choice([None, None, 1]), rng.choice(kind.splits)
        version = rng.choice([1, 1, 2])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, "version", version)
            found = kind(place, split, pre_filter=None if least is None else _Larger(least), **options)
        size, seed = options.get("size", 2), options.get("seed", 0)
        words = [kind.number, size, seed, version, kind.splits.index(split)]
        assert len(found) == size
        assert all(data.x.tolist() == [list(map(float, words))] * 2 for data in found)
        files = sorted(place.rglob("*.safetensors"))
        one, other = rng.choice(files), rng.choice(files)
        harm = rng.randrange(6)
        if harm == 0:
            shutil.copyfile(one, place / "copy")
            (place / "copy").replace(other)
        elif harm == 1:
            with suppress(ValueError):  # it is cut already
                tensors, about = read_tensors(one)
                about.pop(rng.choice(["name", "options", "split", "version", "pre_filter"]), None)
                write_tensors(other, tensors, about)
        elif harm == 2:
            one.write_bytes(one.read_bytes()[: rng.randint(0, 400)])
        elif harm == 3:
            one.unlink()


def dialects(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """A table as some program saves it: separators, decimal commas, encodings, and many columns; the numbers come back."""
    end = rng.choice([".csv", ".csv", ".csv.gz", ".tsv"])
    sign = "\t" if end == ".tsv" else rng.choice([",", ";", ";", "\t"])
    comma = sign != "," and rng.random() < 0.7
    width, height = rng.choice([1, 2, 3, rng.choice([3, 50, 2_000])]), rng.randint(1, 5)
    numbers = [[f"{rng.uniform(-99, 99):.{rng.choice([1, 2, 4])}f}" for _ in range(width)] for _ in range(height)]
    doubt = "" if not comma else rng.choice(["", "", "thousands", "both"])
    if doubt == "thousands":
        numbers = [[f"{rng.randint(1, 999)}.{rng.randint(0, 999):03d}" for _ in row] for row in numbers]
    names = [rng.choice(WESTERN) for _ in range(height)]
    header = ["smiles", rng.choice(["name", "größe", "Stoff"]), *(f"c{c}" for c in range(width))]
    texts = [[rng.choice(MOLECULES), name] for name in names]
    shown = [[number.replace(".", ",") if comma else number for number in row] for row in numbers]
    if doubt == "both":
        header, shown, numbers = [*header, "d"], [[*row, "1.25"] for row in shown], [[*row, "1.25"] for row in numbers]
    encoding = rng.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
    file = place / f"in{end}"
    content = place / "content"
    with content.open("w", encoding=encoding, newline="") as out:
        writer = csv.writer(out, delimiter=sign, lineterminator=rng.choice(["\n", "\r\n"]))
        writer.writerows([header, *([*text, *row] for text, row in zip(texts, shown, strict=True))])
    file.write_bytes(gzip.compress(content.read_bytes()) if end.endswith(".gz") else content.read_bytes())
    try:
        table, odd = read_table(file)
    except ValueError as error:
        if doubt and "it is not clear whether a comma is the decimal sign" in str(error):
            return
        raise
    assert not doubt
    assert not odd
    assert list(table.columns) == header
    assert table.to_numpy().tolist() == [[*text, *row] for text, row in zip(texts, numbers, strict=True)]
    assert ("decimal commas" in table.attrs["note"]) == comma
    if rng.random() < 0.1 and width < 10:
        out = predictor.predict_file(file)
        assert out[header].to_numpy().tolist() == table.to_numpy().tolist()
        assert (out["error"] == "").all()


def labels(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """A table to learn from, with a few flaws: each is named once before training, no other is, and the other rows are used as they are."""
    flaws = {
        "conflict": "contradicting labels",
        "shared": "in more than one split",
        "constant": "the same label",
        "huge": "far from all others",
        "binary": "only 0 and 1",
        "id": "named like an identifier",
        "mass": "follow from the structure",
        "unreadable": "",
    }
    planted = {flaw for flaw in flaws if rng.random() < 0.25}
    chosen = bool(planted & {"binary", "constant"}) or rng.random() < 0.5
    texts = rng.sample(MOLECULES, rng.randint(16, len(MOLECULES)))
    rows = [{"smiles": text, "y": f"{rng.uniform(-3, 3):.3f}", "split": "train"} for text in texts]
    for row, split in zip(rows, ["val", "val", "test", "test"], strict=False):
        row["split"] = split
    if "binary" in planted:
        for r, row in enumerate(rows):
            row["two"] = str(r % 2)
    if "constant" in planted:
        for row in rows:
            row["same"] = "7.5"
    if "id" in planted:
        numbers = rng.sample(range(10**6), len(rows))
        for row, number in zip(rows, numbers, strict=True):
            row["id"] = str(number)
    if "mass" in planted:
        for row in rows:
            row["MW"] = f"{10 + len(row['smiles']) * 14.5 + rng.random():.2f}"
    original = rows[rng.randrange(4, len(rows))]
    good = original["y"]
    if "huge" in planted:
        rows[rng.randrange(4)]["y"] = rng.choice(["1e38", "-1e38", "2e30"])
    if "conflict" in planted or "shared" in planted:
        label = f"{float(good) + 0.5:.3f}" if "conflict" in planted else good
        split = "test" if "shared" in planted else original["split"]
        rows.append({**original, "smiles": _respelled(original["smiles"], rng), "y": label, "split": split})
    if "unreadable" in planted:
        wrong = [{"smiles": "xyz"}, {"y": "many"}, {"smiles": ""}, {"y": ""}, {"split": "often"}, {"y": "1e39"}]
        known = {**original, **dict.fromkeys(("two", "same", "MW"), "")}
        rows += [{**known, **each} for each in rng.sample(wrong, rng.randint(1, 3))]
    rng.shuffle(rows)
    header = [name for name in ("smiles", "y", "split", "two", "same", "id", "MW") if name in original]
    targets = [name for name in header if name in ("y", "two", "same", *(["MW"] if not chosen else []))]
    write_csv(place / "in.csv", header, [[row.get(name, "") for name in header] for row in rows])
    given = targets if chosen else None
    if not chosen and "id" in planted:
        targets = [name for name in targets if name != "id"]
    if not chosen and any(row["y"] == "many" for row in rows):  # y is no column of numbers, which must be said
        try:
            said = load_table(place / "in.csv", splits_column="split")[1].warnings[0]
        except ValueError as error:  # there is no other column of numbers
            said = str(error).replace("(which holds", "is not a target, because it holds")
        assert "y is not a target, because it holds 'many' in row" in said, said
        return
    problem, report = load_table(place / "in.csv", target_columns=given, splits_column="split")
    expected = planted - {"unreadable"} - ({"id", "mass"} if chosen else set())
    if "unreadable" not in planted:
        assert not report.left_out
    named = [flaw for text in report.warnings for flaw, words in flaws.items() if words and words in text]
    assert sorted(named) == sorted(expected), (named, expected, report.warnings)
    assert len(report.warnings) == len(expected)
    assert set(problem.targets) == set(targets)
    assert report.rows == len(rows) == len(problem.graphs) + len(report.left_out)
    assert problem.names is not None
    for g, name in enumerate(problem.names):
        row = rows[int(name) - 1]
        assert problem.y[g].tolist() == pytest.approx([float(row[t] or "nan") for t in problem.targets], nan_ok=True)
    assert bool(report.contradicting_labels) == ("conflict" in planted)
    assert bool(report.in_several_splits) == ("shared" in planted)
    if rng.random() < 0.05:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("reign.train.runs.jobs.train_member", _stop)
            columns = ["--target-columns", *targets] if chosen else []
            done = reign("train", "-i", place / "in.csv", "--splits-column", "split", "-o", place / "run", "-q", *columns)
        assert done.exit_code == 2
        assert [line for line in done.stderr.splitlines() if "warning" in line] == [f"warning: {text}" for text in report.warnings]


def spellings(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """Several SMILES of a molecule have one key, one prediction and the same neighbours; its mirror image and E/Z twin have other keys."""
    text = rng.choice(CHIRAL)
    if rng.random() < 0.4:
        text += "." + rng.choice([*CHIRAL, *MOLECULES])
    texts = [_respelled(text, rng) for _ in range(rng.randint(2, 5))]
    assert len({Chem.CanonSmiles(each) for each in texts}) <= 2  # RDKit's own may not be canonical
    keys = BlockReader().read(Rows(texts)).keys
    assert len(set(keys)) == 1, texts
    assert len({BlockReader().read(Rows([each])).keys[0] for each in texts}) == 1, texts
    twin = _twin(text, rng)
    if Chem.CanonSmiles(Chem.CanonSmiles(twin)) != Chem.CanonSmiles(Chem.CanonSmiles(text)):
        assert BlockReader().read(Rows([twin])).keys[0] != keys[0], (text, twin)
    values = predictor.predict(texts)["size_pred"]
    assert values.max() - values.min() <= 1e-6 * max(1.0, abs(values.max())), (texts, values.max() - values.min(), values.max())
    if rng.random() < 0.2:
        write_csv(place / "in.csv", ["smiles"], [[f" {each}" if rng.random() < 0.2 else each] for each in texts])
        out = predictor.predict_file(place / "in.csv", nearest=2)
        assert np.allclose(out["size_pred"], values, rtol=1e-5, atol=1e-6)
        assert len(out.drop(columns="smiles").drop_duplicates()) == 1


def beyond(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """A molecule unlike the training molecules has a warning, and a training molecule none, unless its prediction is far off."""
    far = rng.choice(
        [
            lambda: "C" * rng.randint(40, 120),
            lambda: "CC" + "(c1ccccc1)CC" * rng.randint(8, 14),
            lambda: rng.choice(["[U]", "CCBr", "C[Si](C)(C)C", "CC#N", "[Na+].[Cl-]", "C[N+](=O)[O-]", "CCS", "FC(F)F"]),
            lambda: "O" + "CCO" * rng.randint(15, 30),
            lambda: rng.choice(["C[C@H](O)CC", "C/C=C/C"]),
        ]
    )()
    near = rng.choice(MOLECULES)
    texts = rng.sample([far, near], 2)
    if rng.random() < 0.5:
        out = predictor.predict(texts)
    else:
        write_csv(place / "in.csv", ["smiles"], [[each] for each in texts])
        out = predictor.predict_file(place / "in.csv", nearest=rng.choice([None, 1]))
    warned = dict(zip(texts, out["warning"], strict=True))
    assert not out["error"].any()
    assert warned[far], far
    low, high = predictor.domain.targets["size"]
    value = float(out["size_pred"][texts.index(near)])
    inside = low - (high - low) / 4 <= value <= high + (high - low) / 4
    assert not warned[near] if inside else warned[near].startswith("predicted far outside"), warned[near]
    if rng.random() < 0.3:
        assert "warning" not in predictor.predict([far], warnings=False)


def _commands(group: Any, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], list[Any]]]:
    """All commands, with their options."""
    if not hasattr(group, "commands"):
        return [(words, [each for each in group.params if each.param_type_name == "option"])]
    return [found for name, command in group.commands.items() for found in _commands(command, (*words, name))]


COMMANDS = _commands(get_command(app))


def options(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """An option of one value that is given twice, or a flag in both forms, in any command."""
    words, known = rng.choice(COMMANDS)
    single = [each for each in known if not each.multiple and not each.is_flag and not each.count]
    flags = [each for each in known if each.is_flag and each.secondary_opts]
    if flags and (not single or rng.random() < 0.2):
        flag = rng.choice(flags)
        args, said = [flag.opts[-1], flag.secondary_opts[-1]], "is given in both forms"
    elif single:
        option, times = rng.choice(single), rng.randint(2, 3)
        args, said = [], f"is given {times} times, but takes one value"
        for _ in range(times):
            name, value = rng.choice(option.opts), rng.choice(["1", "a.csv", "0.5", "x"])
            args += [f"{name}={value}"] if name.startswith("--") and rng.random() < 0.4 else [name, value]
    else:
        return
    done = reign(*words, *args, *(["-q"] if rng.random() < 0.3 and any("-q" in each.opts for each in known) else []))
    assert done.exit_code == 2, (words, args, done.output, done.exception)
    assert said in " ".join(done.output.split()), (words, args, done.output)
    assert isinstance(done.exception, SystemExit)


def separations(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """Several lists of terms in one call: each has its lines, which are those of a call of its own."""
    graphs = ["EhEG", "EwCW", "CF", "Ch", "DQo", "DUW"]  # graph6
    (place / "my.g6").write_text("\n".join(graphs[: rng.choice([2, 4])]) + "\n")
    lists = [",".join(rng.sample(TERMS, rng.randint(1, 3))) for _ in range(rng.randint(1, 3))]
    roots = [rng.choice(["none", "own", "own,local"]) for _ in lists] if rng.random() < 0.5 else []
    if rng.random() < 0.2:
        roots = roots[1:] if roots else ["own"] * (len(lists) + 1)
    models = [rng.choice(["sun:nm", "ds:nm", "mpnn"]) for _ in range(rng.choice([0, 0, 1, 2]))]
    orders = [str(rng.randint(1, 2)) for _ in range(rng.choice([0, 0, 1, 2]))]
    fixed = ["separate", place / "my.g6", "--act", "none", "--layers", "2", "-q"]

    def lines(*args: str) -> list[list[str]] | None:
        done = reign(*fixed, *args, "--csv", place / "out.csv")
        if done.exit_code == 2 and isinstance(done.exception, SystemExit):
            assert done.stderr.startswith("reign: "), done.output
            return None
        assert done.exit_code == 0, (args, done.output, done.exception)
        with (place / "out.csv").open() as file:
            return list(csv.reader(file))[1:]

    args = [word for terms in lists for word in ("--terms", terms)] + [word for each in roots for word in ("--root-terms", each)]
    args += [word for each in models for word in ("--model", each)] + [word for each in orders for word in ("--wl", each)]
    titles = list(zip(lists, roots or ["none"] * len(lists), strict=False))
    twice = any(len(set(each)) < len(each) for each in (titles, models, orders))
    found = lines(*args)
    if twice or (roots and len(roots) != len(lists)):
        assert found is None, args
        return
    each = rng.randrange(len(lists))
    own = ["--terms", lists[each], *(["--root-terms", roots[each]] if roots else [])]
    alone = lines(*own)
    if found is None:
        assert any(lines("--terms", terms, *(["--root-terms", root] if roots else [])) is None for terms, root in titles), args
        return
    assert alone
    assert [line for line in found if line in alone] == alone, (args, found, alone)
    pairs = {line[0] for line in found}
    assert len(found) == len(pairs) * (2 * len(lists) + len(models) + len(orders)), (args, found)
    assert len({tuple(line[:2]) for line in found}) == len(found), (args, found)


def pickles(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """Files that only an unsafe reader would load, in every place for weights; nobody is told to read them unsafely."""
    hidden: Any = {"learner": rng.choice([_Larger(2), Path("x"), np.random.default_rng(0), Chem.MolFromSmiles("C")]), "epoch": 1}
    file = place / "checkpoint.pt"
    kind = rng.randrange(4)
    if kind == 0:
        file.write_bytes(rng.choice(list(bombs(place / "canary").values())))
    elif kind == 1:
        torch.save(hidden, file, _use_new_zipfile_serialization=rng.random() < 0.5)
    elif kind == 2:
        file.write_bytes(pickle.dumps(hidden, protocol=rng.randint(0, 5)))
    else:
        torch.save(hidden, file)
        content = bytearray(file.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
    shutil.copytree(trained / "run" / "seed-0" / "last", place / "last")
    shutil.copyfile(file, place / "last" / "model.safetensors")
    for read in (lambda: read_state(file), lambda: read_tensors(file), lambda: Model.from_pretrained(place / "last")):
        with pytest.raises(ValueError, match="damaged|holds|cannot be read") as caught:
            read()
        said = str(caught.value)
        assert "weights_only" not in said
        assert "trust" not in said
        assert "\n" not in said


def _respelled(text: str, rng: random.Random) -> str:
    """Another SMILES of the same molecule."""
    mol = Chem.MolFromSmiles(text)
    order = rng.sample(range(mol.GetNumAtoms()), mol.GetNumAtoms())
    return str(Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False, kekuleSmiles=False))


def _twin(text: str, rng: random.Random) -> str:
    """The SMILES with one mark of chirality, or of a double bond, the other way."""
    places = [i for i, sign in enumerate(text) if (sign == "@" and text[i - 1] != "@") or sign in "/\\"]
    if not places:
        return text
    at = rng.choice(places)
    if text[at] != "@":
        return text[:at] + ("\\" if text[at] == "/" else "/") + text[at + 1 :]
    return text[:at] + text[at + 1 :] if text[at + 1] == "@" else text[:at] + "@" + text[at:]


def _stop(*args: Any) -> None:
    raise ValueError("far enough")
