"""A user's table of molecules as a learning problem. The report has a reason for every row that is left out."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pandas as pd
import torch
from torch_geometric.data import Data

from reign.data._files import Progress
from reign.data._label_checks import check_labels, find_conflicts, find_shared
from reign.data._pack import GraphPack
from reign.data._problem import Ids, Problem
from reign.data.molecules._csv_reader import need_columns
from reign.data.molecules._descriptors import Descriptors, num_descriptors
from reign.data.molecules._labels import computed_columns, number_columns, read_labels, read_number, read_weights
from reign.data.molecules._splits import Splitting
from reign.data.molecules._table_file import read_table
from reign.nn import OGB_ATOM
from reign.smiles import Molecule, Stereo, graphs_of, read_many

# -- the report ----------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """A report on a table. Rows are counted from 1, below the header.

    Args:
        rows: number of rows.
        left_out: the rows that could not be used, with the reasons.
        duplicates: number of rows that repeat a molecule.
        apart: number of these rows that are in a different split than the molecule they repeat.
        splits: number of rows of each split.
        salts: number of rows that are salts or mixtures.
        spaces: number of rows with white space around a SMILES.
        missing: number of missing labels.
        targets: the targets.
        task: the task.
        chosen: whether the targets were given; if not, they are all columns of numbers.
        not_targets: columns of numbers that are no default targets, with the reasons.
        note: how the file was read, if not as usual.
        sizes: a sentence about sizes of splits that are not those asked for.
        warnings: what looks wrong before training, a line for each kind of finding; see ``reign.data.check_labels``.
        in_several_splits: molecules in more than one split: the SMILES, and the rows by split.
        contradicting_labels: molecules with different labels of a target: the SMILES, the target, the rows and their labels. All of them are kept.
    """

    rows: int
    left_out: dict[int, str] = field(default_factory=dict)
    duplicates: int = 0
    apart: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    salts: int = 0
    spaces: int = 0
    missing: int = 0
    targets: list[str] = field(default_factory=list)
    task: str = "regression"
    chosen: bool = True
    not_targets: dict[str, str] = field(default_factory=dict)
    note: str = ""
    sizes: str = ""
    warnings: list[str] = field(default_factory=list)
    in_several_splits: list[dict[str, object]] = field(default_factory=list)
    contradicting_labels: list[dict[str, object]] = field(default_factory=list)

    def leave_out(self, rows: dict[int, str]) -> None:
        """Add rows that cannot be used, with the reasons."""
        self.left_out = dict(sorted({**self.left_out, **rows}.items()))

    def lines(self) -> list[str]:
        """The report in sentences."""
        out = [self.note] if self.note else []
        out.append(f"{self.rows - len(self.left_out):,} of {self.rows:,} rows read")
        if self.targets:
            every = "all other columns" if self.not_targets else "all columns"
            hint = "" if self.chosen else f"; these are {every} of numbers, use --target-columns to choose some"
            out.append(f"{'targets' if len(self.targets) > 1 else 'target'} ({self.task}): {', '.join(self.targets)}{hint}")
        if self.missing:
            out.append(
                f"{self.missing:,} {'label is' if self.missing == 1 else 'labels are'} missing, and ignored in losses and metrics"
            )
        if self.duplicates:
            where = f"{self.apart:,} in another split" if self.apart else "in the same split"
            out.append(
                f"{self.duplicates:,} {'row repeats' if self.duplicates == 1 else 'rows repeat'} a molecule; all are kept, {where}"
            )
        if self.salts:
            out.append(
                f"{self.salts:,} {'row is a salt or mixture' if self.salts == 1 else 'rows are salts or mixtures'}; each is one graph of several components"
            )
        if self.spaces:
            out.append(
                f"{self.spaces:,} SMILES {'has' if self.spaces == 1 else 'have'} spaces around {'it' if self.spaces == 1 else 'them'}, which are ignored"
            )
        empty = [split for split, number in self.splits.items() if number == 0]
        if {"val", "test"} <= {*empty}:
            out.append("no rows are left for val and test, so nothing measures the model")
        else:
            out += [f"the {split} split has no rows" for split in empty]
        return [*out, self.sizes] if self.sizes else out

    def record(self) -> dict[str, object]:
        """All of the report as values for a file: in sentences, and every row."""
        return {"lines": self.lines(), **asdict(self)}


# -- the table -----------------------------------------------------------------------------------------------------------


def read_molecules(
    table: pd.DataFrame,
    columns: Sequence[str],
    odd: dict[int, str],
    stereo: Stereo = "parity",
    progress: Progress = lambda items, _: items,
) -> tuple[list[Molecule | None], dict[int, str]]:
    """A molecule for each row, or None with the reason. Several columns of SMILES form one molecule of several components.

    Args:
        table: a table of text.
        columns: the columns of SMILES.
        odd: rows that must not be read, with the reasons.
        stereo: as for ``Molecule.read``.
        progress: function that wraps loops, to show progress.
    """
    texts = molecule_texts([table[column] for column in columns])
    readable = [text if row not in odd else "" for row, text in enumerate(texts)]
    found, wrong = read_many(progress(readable, "reading SMILES"), stereo)
    return found, {**wrong, **odd}


def molecule_texts(columns: Sequence[Iterable[str]]) -> Iterator[str]:
    """One SMILES for each row, from one or several columns; empty if one of them is."""
    cells = ([text.strip() for text in texts] for texts in zip(*columns, strict=True))
    return (".".join(texts) if all(texts) else "" for texts in cells)


def load_table(
    path: str | Path,
    smiles_columns: Sequence[str] = ("smiles",),
    target_columns: Sequence[str] | None = None,
    task: str = "regression",
    split: str = "random",
    split_sizes: Sequence[float] = (0.8, 0.1, 0.1),
    splits_column: str | None = None,
    split_seed: int = 0,
    classes: Sequence[str] = (),
    weight_column: str | None = None,
    descriptors: Descriptors | None = None,
    progress: Progress = lambda items, _: items,
    known_targets: Sequence[str] = (),
    stereo: Stereo = "parity",
    splits_file: str | Path | None = None,
    group_column: str | None = None,
    time_column: str | None = None,
    split_similarity: float = 0.6,
    ignore_columns: Sequence[str] = (),
) -> tuple[Problem, Report]:
    """Load a table of molecules as a problem, with a report.

    Args:
        path: a CSV or .tsv file, which may be compressed.
        smiles_columns: columns of SMILES; the molecules of several columns form one graph.
        target_columns: columns to predict; all other columns of numbers if not given, except identifiers.
        task: "regression", "classification" (0 or 1) or "multiclass".
        split: one of "random", "scaffold_balanced", "butina", "kennard_stone" and "kmeans", or "none" for all rows in the test split.
        split_sizes: shares of train, val and test.
        splits_column: a column with the values train, val and test, in place of ``split``; so are ``splits_file``, ``group_column`` and ``time_column``.
        split_seed: seed of the split.
        classes: names of the classes; those in the table if not given.
        weight_column: a column with the weight of each row in training.
        descriptors: numbers about whole molecules that the model gets besides the graph.
        progress: function that wraps loops, to show progress.
        known_targets: the targets of a run that was started before, in place of those chosen here if ``target_columns`` is not given.
        stereo: what graphs say about chirality, as for ``Molecule.read``.
        splits_file: a JSON file with the numbers of the rows of each split, counted from 0.
        group_column: a column of words; rows with the same word are in the same split.
        time_column: a column of numbers or dates; the oldest rows are for training, and the newest for the test.
        split_similarity: for the split "butina", the Tanimoto similarity from which on molecules are neighbours.
        ignore_columns: columns that are no targets if ``target_columns`` is not given.
    """
    table, odd = read_table(path)
    splitting = Splitting(split, split_sizes, split_seed, splits_column, splits_file, group_column, time_column, split_similarity)
    own = [*splitting.columns, *([weight_column] if weight_column else [])]
    need_columns(
        table.columns, [*smiles_columns, *(target_columns or []), *own, *(c for c in ignore_columns if c not in own)], path
    )
    targets, not_targets = list(target_columns or ()), dict[str, str]()
    if not targets:
        others = [*smiles_columns, *own, *ignore_columns, *(descriptors.columns if descriptors else ())]
        targets, not_targets = number_columns(table, others, path, known_targets)
        targets = list(known_targets) or targets
        need_columns(table.columns, targets, path)
    read, wrong = read_molecules(table, smiles_columns, odd, stereo, progress)
    graphs, wrong = graphs_of(progress(read, "making graphs"), wrong)
    if descriptors:
        graphs, wrong = descriptors.extend(graphs, read, wrong, table, path, progress)
    keys, groups, wrong = _spellings(read, wrong, splitting.way == "scaffold_balanced", progress)
    labels, known, wrong_labels = read_labels(table, targets, task, list(classes))
    wrong = {**wrong_labels, **wrong}
    marks, wrong_split = splitting.read(table)
    wrong = {**wrong_split, **wrong}
    weights = None
    if weight_column:
        weights, wrong_weights = read_weights(list(table[weight_column]), weight_column)
        wrong = {**wrong_weights, **wrong}
    rows = [row for row in range(len(table)) if row not in wrong]
    report = Report(
        len(table),
        {row + 1: wrong[row] for row in sorted(wrong)},
        targets=targets,
        task=task,
        chosen=target_columns is not None,
        not_targets=not_targets,
        note=table.attrs["note"],
    )
    if not rows:
        first = next(iter(report.left_out.items()), None)
        reason = f"; row {first[0]}: {first[1]}." if first else ": it has no rows."
        if split == "none":
            raise ValueError(f"{path} has no row to evaluate{reason}")
        if first and task != "multiclass" and first[1] == wrong_labels.get(row := first[0] - 1) and _has_words(table[targets], row):
            reason += " If the labels are names of classes, use the task multiclass."
        raise ValueError(f"{path} has no row to learn from{reason}")
    table, labels, keys = table.iloc[rows], [labels[row] for row in rows], [keys[row] for row in rows]
    used = [molecule for row in rows if (molecule := read[row])]
    splits, together = splitting.split([marks[row] for row in rows], keys, [groups[row] for row in rows], used, progress)
    report.sizes = splitting.about(splits, len(rows))
    _count(report, table[list(smiles_columns)], keys, labels, splits)
    if split != "none":
        _need_training_labels(splits, targets, labels, path)
    problem = Problem(
        name=Path(path).name,
        graphs=GraphPack.of([_with_labels(graphs[row], y) for row, y in zip(rows, labels, strict=True)]),
        splits=splits,
        task=task,
        targets=targets,
        node_encoder=f"atom+{num_descriptors(graphs, len(OGB_ATOM))}" if descriptors else "atom",
        edge_encoder="bond",
        classes=known,
        names=[str(row + 1) for row in rows],
        texts={column: list(table[column]) for column in smiles_columns},
        groups=keys,
        together=together,
        weights=None if weights is None else torch.tensor([weights[row] for row in rows], dtype=torch.float64),
    )
    same: list[Hashable] = [*keys]
    if descriptors and (descriptors.columns or descriptors.path):  # one molecule under two conditions is not the same for a model
        often = Counter(keys)
        same = [(key, _descriptors_of(problem, g)) if often[key] > 1 else key for g, key in enumerate(keys)]
    _check(report, problem, same)
    if split != "none":
        computed = {} if report.chosen else computed_columns(labels, targets, used)
        report.warnings = [*_about_targets(not_targets, computed), *check_labels(problem, same)]
    return problem, report


def _check(report: Report, problem: Problem, same: Sequence[Hashable]) -> None:
    """Add the molecules in several splits and with contradicting labels to the report."""
    assert problem.names is not None
    assert problem.groups is not None
    rows = [int(name) for name in problem.names]
    report.in_several_splits = [
        {
            "smiles": problem.groups[next(iter(found.values()))[0]],
            "rows": {split: [rows[g] for g in ids] for split, ids in found.items()},
        }
        for found in find_shared(problem, problem.groups)
    ]
    report.contradicting_labels = [
        {
            "smiles": problem.groups[each.graphs[0]],
            "target": each.target,
            "rows": [rows[g] for g in each.graphs],
            "labels": each.labels,
        }
        for each in find_conflicts(problem, same)
    ]


def _descriptors_of(problem: Problem, graph: int) -> str:
    """The descriptors of a graph as text, without the digits in which spellings of one molecule may differ."""
    number = int(problem.node_encoder.partition("+")[2])
    values = problem.graphs.x[int(problem.graphs.node_ptr[graph]), -number:]
    return " ".join(f"{value:.4g}" for value in values.tolist())


def _about_targets(left: dict[str, str], computed: dict[str, str]) -> list[str]:
    """What the default targets leave out, and which of them are computed from the structure."""
    out = [f"{column} is not a target, because it {why}; --target-columns chooses the targets" for column, why in left.items()]
    if computed:
        named = ", ".join(f"{target} ({what})" for target, what in computed.items())
        is_are = "is a target, though it seems" if len(computed) == 1 else "are targets, though they seem"
        out.append(f"{named} {is_are} to follow from the structure; --target-columns chooses the targets")
    return out


def _spellings(
    molecules: Sequence[Molecule | None], wrong: dict[int, str], scaffolds: bool, progress: Progress
) -> tuple[list[str], list[str], dict[int, str]]:
    """The canonical SMILES of each molecule, its scaffold if needed, and all reasons for missing ones."""
    keys, groups, wrong = [""] * len(molecules), [""] * len(molecules), dict(wrong)
    for row, molecule in enumerate(progress(molecules, "canonical SMILES")):
        if molecule is not None and row not in wrong:
            try:
                keys[row] = molecule.canonical()
                groups[row] = molecule.scaffold() if scaffolds else ""
            except ValueError as error:
                wrong[row] = str(error)
    return keys, groups, wrong


def _with_labels(data: Data | None, labels: list[float]) -> Data:
    assert data is not None
    data.y = torch.tensor([labels], dtype=torch.float64)
    return data


def _count(report: Report, smiles: pd.DataFrame, keys: list[str], labels: list[list[float]], splits: dict[str, Ids]) -> None:
    """Add the counts of the rows that are used to the report."""
    texts = list(smiles.itertuples(index=False, name=None))
    owner = {i: split for split, ids in splits.items() for i in ids.tolist()}
    report.duplicates = len(keys) - len(set(keys))
    report.apart = len({(key, owner[i]) for i, key in enumerate(keys)}) - len(set(keys))
    report.salts = sum(any("." in text for text in row) for row in texts)
    report.spaces = sum(any(text != text.strip() for text in row) for row in texts)
    report.missing = sum(math.isnan(value) for row in labels for value in row)
    expected = ("train", "val", "test") if "train" in splits else splits  # a table that is only tested has one split
    report.splits = {split: int(splits[split].numel()) if split in splits else 0 for split in expected}


def _has_words(labels: pd.DataFrame, row: int) -> bool:
    """Whether a label of this row is not a number."""
    return any(read_number(text) is None for text in labels.iloc[row])


def _need_training_labels(splits: dict[str, Ids], targets: list[str], labels: list[list[float]], path: str | Path) -> None:
    if "train" not in splits:
        raise ValueError(
            f"{path} leaves no row for training; it has {len(labels)} readable rows. Use other split sizes, or more rows."
        )
    known = splits["train"].tolist()
    for column, target in enumerate(targets):
        if all(math.isnan(labels[i][column]) for i in known):
            raise ValueError(f"{target} has no label in the {len(known)} training rows; leave it out, or use another split.")
