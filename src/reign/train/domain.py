"""The domain of a model: a summary of its training molecules, and warnings for molecules and predictions beyond it.

A run writes it at the end of the training:

atoms           the least and the largest number of atoms
atom, bond      the values of each column of features
targets         the least and the largest label of each target, for regression

A run that was made before there was this file has its training molecules, from which all but the targets is computed; their ranges are estimated from
their means and deviations.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from reign.data import GraphPack, Ids, Problem
from reign.disk import read_record, write_json
from reign.train.engine.callbacks import Callback
from reign.train.nearest import read_training
from reign.train.runs.run import Run
from reign.train.trained_model import TrainedModel

if TYPE_CHECKING:
    from reign.train.predictor import Predictor

COLUMN = "warning"
COLUMNS = {"atom": 9, "bond": 3}  # columns of features; descriptors follow those of atoms
BEYOND = 0.25  # margin around numbers of atoms, as a share of them, and around the range of targets, as a share of its width
USUAL = 3.0  # half of a range that is estimated, in deviations
LARGEST = 256  # above all values of features
SHOWN = 3  # largest number of unseen features, or of targets, that are named in a warning

Range = tuple[float, float]


@dataclass(frozen=True)
class Domain:
    """What is known about the training molecules.

    Args:
        atoms: the least and the largest number of atoms; None if it is not known.
        features: the values of each column, sorted, for "atom" and "bond"; None if they are not known.
        targets: the least and the largest label by target, of those that are numbers.
        estimated: whether the ranges of targets are estimates.
    """

    atoms: tuple[int, int] | None = None
    features: dict[str, list[list[int]]] | None = None
    targets: dict[str, Range] = field(default_factory=dict)
    estimated: bool = False

    @classmethod
    def of(cls, graphs: GraphPack, ids: Ids | None = None) -> "Domain":
        """The domain of some graphs of molecules, without targets; of all if no ids are given."""
        chosen = torch.ones(len(graphs), dtype=torch.bool)
        if ids is not None:
            chosen[:] = False
            chosen[ids] = True
        sizes = graphs.sizes[chosen]
        return cls(
            (int(sizes.min()), int(sizes.max())),
            {
                name: [column[chosen[owners]].unique().long().tolist() for column in columns]
                for name, columns, owners in _features(graphs)
            },
        )

    @classmethod
    def of_training(cls, problem: Problem, ids: Ids) -> "Domain":
        """The domain of models that were trained on these graphs of a problem."""
        known = cls.of(problem.graphs, ids)
        ranges: dict[str, Range] = {}
        for t, target in enumerate(problem.targets if problem.task == "regression" else ()):
            labels = problem.y[ids, t]
            labels = labels[~labels.isnan()]
            if labels.numel():
                ranges[target] = (float(labels.min()), float(labels.max()))
        return cls(known.atoms, known.features, ranges)

    def save(self, file: Path) -> None:
        """Write as JSON."""
        assert self.features is not None
        write_json(file, {"atoms": self.atoms, **self.features, "targets": self.targets})

    @classmethod
    def load(cls, file: Path) -> "Domain":
        """Read what ``save`` wrote."""
        saved = read_record(file, atoms=list, atom=list, bond=list, targets=dict)
        ranges, columns = [saved["atoms"], *saved["targets"].values()], [*saved["atom"], *saved["bond"]]
        good = all(isinstance(each, list) and len(each) == 2 and all(map(_finite, each)) for each in ranges)
        good = good and all(len(saved[name]) == number for name, number in COLUMNS.items())
        good = good and all(isinstance(each, list) and all(type(v) is int and 0 <= v < LARGEST for v in each) for each in columns)
        if not good:
            raise ValueError(
                f"{file} is damaged: expected ranges of two finite numbers, and a list of whole numbers for each column of features."
            )
        features = {name: saved[name] for name in COLUMNS}
        return cls(tuple(saved["atoms"]), features, {target: tuple(each) for target, each in saved["targets"].items()})

    def joined(self, other: "Domain") -> "Domain":
        """The domain of the training molecules of both. What is not known of one of them is not known."""
        atoms, features = None, None
        if self.atoms is not None and other.atoms is not None:
            atoms = min(self.atoms[0], other.atoms[0]), max(self.atoms[1], other.atoms[1])
        if self.features is not None and other.features is not None:
            pairs = {name: zip(self.features[name], other.features[name], strict=True) for name in COLUMNS}
            features = {name: [sorted({*ours, *theirs}) for ours, theirs in columns] for name, columns in pairs.items()}
        targets = {
            target: (min(low, other.targets[target][0]), max(high, other.targets[target][1]))
            for target, (low, high) in self.targets.items()
            if target in other.targets
        }
        return Domain(atoms, features, targets, self.estimated or other.estimated)

    def warnings(self, graphs: GraphPack, values: Mapping[str, Sequence[float]]) -> list[str]:
        """The warning of each graph; empty for a graph within the domain.

        Args:
            graphs: the graphs.
            values: the predictions for these graphs by target.
        """
        reasons: list[list[str]] = [[] for _ in range(len(graphs))]
        if self.atoms is not None:
            least, most = self.atoms
            for g, size in enumerate(graphs.sizes.tolist()):
                if not least / (1 + BEYOND) <= size <= most * (1 + BEYOND):
                    reasons[g].append(f"{size:,} atom{'s' * (size > 1)}, but the training molecules have {least:,} to {most:,}")
        unseen: dict[int, list[str]] = {}
        for name, columns, owners in _features(graphs) if self.features is not None else ():
            for c, column in enumerate(columns):
                self._add_unseen(unseen, name, c, column.long(), owners)
        for g, names in unseen.items():
            reasons[g].append(f"no training molecule has {_first(names, ' or ')}")
        far: dict[int, list[str]] = {}
        for target, (low, high) in self.targets.items():
            margin = BEYOND * (high - low)
            for g, value in enumerate(values.get(target, ()) if high > low else ()):
                if not low - margin <= value <= high + margin:
                    about = "about " if self.estimated else ""
                    far.setdefault(g, []).append(f"{target} is {value:.5g} ({about}{low:.5g} to {high:.5g} in training)")
        for g, names in far.items():
            reasons[g].append(f"predicted far outside the training targets: {_first(names, ', ')}")
        return ["; ".join(each) for each in reasons]

    def _add_unseen(self, unseen: dict[int, list[str]], name: str, c: int, column: Tensor, owners: Tensor) -> None:
        """Add what is in no training molecule, by graph, for one column of features."""
        from reign.data.molecules import in_words

        assert self.features is not None
        other = ~torch.isin(column, torch.tensor(self.features[name][c], dtype=torch.long, device=column.device))
        if other.any():
            for g, value in torch.stack([owners[other], column[other]], dim=1).unique(dim=0).tolist():
                unseen.setdefault(g, []).append(in_words(name, c, value))


def find_domain(predictor: "Predictor") -> Domain:
    """The domain of all runs of a predictor. Runs on other data than SMILES have none."""
    recipe = predictor.recipe
    if not recipe.data.reads_smiles:
        return Domain()
    with predictor.given_names():
        every = [_of_run(run, predictor) for run in predictor.runs]
    found = every[0]
    for each in every[1:]:
        found = found.joined(each)
    return found


def _of_run(run: Run, predictor: "Predictor") -> Domain:
    if run.files.domain.is_file():
        return Domain.load(run.files.domain)
    known = Domain()
    if run.files.training.is_file():
        graphs = [data for data in read_training(run.files.training, predictor.recipe.data, Callback())[2] if data is not None]
        known = Domain.of(GraphPack.of(graphs))
    models = [model for model in predictor.models if run.folder in model.folder.parents]
    return Domain(known.atoms, known.features, _estimated(models, predictor.targets, predictor.task), True)


def _estimated(models: Sequence[TrainedModel], targets: Sequence[str], task: str) -> dict[str, Range]:
    """The ranges of targets from their means and deviations in training; none if they were not scaled."""
    if task != "regression" or not all(model.config.scale_targets for model in models):
        return {}
    means = torch.stack([model.scale.mean.expand(len(targets)) for model in models])
    half = USUAL * torch.stack([model.scale.deviation.expand(len(targets)) for model in models])
    low, high = (means - half).amin(0).tolist(), (means + half).amax(0).tolist()
    return {target: (low[t], high[t]) for t, target in enumerate(targets)}


def _features(graphs: GraphPack) -> "Iterator[tuple[str, list[Tensor], Tensor]]":
    """The columns of features of atoms and of bonds, each with the graph of every row."""
    for name, table, ptr in (("atom", graphs.x, graphs.node_ptr), ("bond", graphs.edge_attr, graphs.edge_ptr)):
        if table is not None:
            owners = torch.repeat_interleave(torch.arange(len(graphs), device=ptr.device), ptr.diff())
            yield name, [table[:, c] for c in range(COLUMNS[name])], owners


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _first(names: Sequence[str], between: str) -> str:
    """The first few names, and the number of the others."""
    more = f" (and {len(names) - SHOWN:,} more)" if len(names) > SHOWN else ""
    return between.join(names[:SHOWN]) + more
