"""How far predictions are from the training data: warnings beyond the domain of a model, and its nearest training molecules.

A run writes its domain, a summary of its training molecules, at the end of the training:

atoms           the least and the largest number of atoms
atom, bond      the values of each column of features
targets         the least and the largest label of each target, for regression

A run that was made before there was this file has its training molecules, from which all but the targets is computed; their ranges are estimated from
their means and deviations.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import GraphPack, Ids, Problem
from reign.disk import read_record, write_csv, write_json
from reign.train.engine.callbacks import Callback
from reign.train.predict.ensemble import TrainedEnsemble, TrainedModel
from reign.train.runs.run import Run
from reign.train.settings.config import DataConfig

if TYPE_CHECKING:
    import pandas as pd
    from torch_geometric.data import Data

    from reign.data.molecules import Molecule, Stereo

WARNING = "warning"
FEATURES = {"atom": 9, "bond": 3}  # columns of features; descriptors follow those of atoms
BEYOND = 0.25  # margin around numbers of atoms, as a share of them, and around the range of targets, as a share of its width
USUAL = 3.0  # half of a range that is estimated, in deviations
LARGEST = 256  # above all values of features
SHOWN = 3  # largest number of unseen features, or of targets, that are named in a warning
NEAREST = ["nearest_rows", "nearest_smiles", "nearest_similarity", "vector_rows", "vector_similarity"]
FAR = 0.7  # a molecule is unlike all training molecules if it is less similar than this share of what is usual among them

Range = tuple[float, float]


@dataclass(frozen=True)
class Domain:
    """What is known about the training molecules.

    Args:
        atoms: the least and the largest number of atoms; None if it is not known.
        features: the values of each column, sorted, for "atom" and "bond"; None if they are not known.
        targets: the least and the largest label by target, of those that are numbers.
        estimated: whether the ranges of targets are estimates.
        stereo: what the feature of chirality says; a file does not have it.
    """

    atoms: tuple[int, int] | None = None
    features: dict[str, list[list[int]]] | None = None
    targets: dict[str, Range] = field(default_factory=dict)
    estimated: bool = False
    stereo: "Stereo" = "ogb"

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
        good = good and all(len(saved[name]) == number for name, number in FEATURES.items())
        good = good and all(isinstance(each, list) and all(type(v) is int and 0 <= v < LARGEST for v in each) for each in columns)
        if not good:
            raise ValueError(
                f"{file} is damaged: expected ranges of two finite numbers, and a list of whole numbers for each column of features."
            )
        features = {name: saved[name] for name in FEATURES}
        return cls(tuple(saved["atoms"]), features, {target: tuple(each) for target, each in saved["targets"].items()})

    def joined(self, other: "Domain") -> "Domain":
        """The domain of the training molecules of both. What is not known of one of them is not known."""
        atoms, features = None, None
        if self.atoms is not None and other.atoms is not None:
            atoms = min(self.atoms[0], other.atoms[0]), max(self.atoms[1], other.atoms[1])
        if self.features is not None and other.features is not None:
            pairs = {name: zip(self.features[name], other.features[name], strict=True) for name in FEATURES}
            features = {name: [sorted({*ours, *theirs}) for ours, theirs in columns] for name, columns in pairs.items()}
        targets = {
            target: (min(low, other.targets[target][0]), max(high, other.targets[target][1]))
            for target, (low, high) in self.targets.items()
            if target in other.targets
        }
        return Domain(atoms, features, targets, self.estimated or other.estimated, self.stereo)

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
        unseen: dict[int, dict[str, None]] = {}  # without repetitions, in order
        for name, columns, owners in _features(graphs) if self.features is not None else ():
            for c, column in enumerate(columns):
                self._add_unseen(unseen, name, c, column.long(), owners)
        for g, words in unseen.items():
            reasons[g].append(f"no training molecule has {_first(list(words), ' or ')}")
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

    def _add_unseen(self, unseen: dict[int, dict[str, None]], name: str, c: int, column: Tensor, owners: Tensor) -> None:
        """Add what is in no training molecule, by graph, for one column of features."""
        from reign.data.molecules import in_words

        assert self.features is not None
        seen = self.features[name][c]
        other = ~torch.isin(column, torch.tensor(seen, dtype=torch.long, device=column.device))
        if other.any():
            for g, value in torch.stack([owners[other], column[other]], dim=1).unique(dim=0).tolist():
                unseen.setdefault(g, {})[in_words(name, c, value, self.stereo, seen)] = None


def find_domain(ensemble: TrainedEnsemble, callback: Callback) -> Domain:
    """The domain of all runs of an ensemble. Runs on other data than SMILES have none."""
    recipe = ensemble.recipe
    if not recipe.data.reads_smiles:
        return Domain()
    with ensemble.given_names():
        every = [_of_run(run, ensemble, callback) for run in ensemble.runs]
    found = every[0]
    for each in every[1:]:
        found = found.joined(each)
    return replace(found, stereo=recipe.data.stereo_of_graphs)


def _of_run(run: Run, ensemble: TrainedEnsemble, callback: Callback) -> Domain:
    if run.files.domain.is_file():
        return Domain.load(run.files.domain)
    known = Domain()
    if run.files.training.is_file():
        graphs = [data for data in read_training(run.files.training, ensemble.recipe.data, callback)[2] if data is not None]
        known = Domain.of(GraphPack.of(graphs))
    models = [model for model in ensemble.models if run.folder in model.folder.parents]
    return Domain(known.atoms, known.features, _estimated(models, ensemble.targets, ensemble.task), True)


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
            yield name, [table[:, c] for c in range(FEATURES[name])], owners


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _first(names: Sequence[str], between: str) -> str:
    """The first few names, and the number of the others."""
    more = f" (and {len(names) - SHOWN:,} more)" if len(names) > SHOWN else ""
    return between.join(names[:SHOWN]) + more


def keep_training(file: Path, problem: Problem) -> None:
    """Save the training molecules of a run: the row in the table, and the columns of SMILES."""
    ids = problem.splits["train"].tolist()
    columns = [[problem.names[i] for i in ids] if problem.names else ids]
    columns += [[texts[i] for i in ids] for texts in problem.texts.values()]
    write_csv(file, ["row", *problem.texts], zip(*columns, strict=True))


class TrainingMolecules:
    """The molecules that a run was trained on.

    Args:
        run: the run.
        config: the settings of its table.
        model: the first model of the run, which computes the vectors.
        callback: receives progress events.
    """

    def __init__(self, run: Run, config: DataConfig, model: TrainedModel, callback: Callback) -> None:
        from reign.data.molecules import Neighbours

        if not run.files.training.is_file():
            raise ValueError(
                f"{run.folder} does not have the molecules that it was trained on ({run.files.training.name}): it is a cross-validation, a zip without molecules (reign export "
                "--with-molecules keeps them), or was made by an older version of reign; leave --nearest out, or train again."
            )
        table, molecules, graphs = read_training(run.files.training, config, callback)
        graphs, _ = config.descriptors().extend(graphs, molecules, {}, progress=callback.track)
        self.rows = list(table["row"])
        self.texts = [".".join(texts) for texts in zip(*(table[column] for column in config.smiles_columns), strict=True)]
        self.neighbours = Neighbours(molecules, callback.track)
        self.least = FAR * self.neighbours.usual(progress=callback.track)
        self.model, self.callback = model, callback
        self.vectors = self._vectors(GraphPack.of([data for data in graphs if data is not None]))

    def columns(self, molecules: "Sequence[Molecule]", pack: GraphPack, number: int) -> tuple[dict[str, list[str]], list[str]]:
        """The columns for predicted molecules, and a warning for each molecule; empty where there is no reason for one.

        Args:
            molecules: the molecules.
            pack: their graphs.
            number: number of neighbours.
        """
        found: dict[str, list[str]] = {name: [] for name in NEAREST}
        warnings = []
        for molecule, vector in zip(molecules, self._vectors(pack), strict=True):
            near = self.neighbours.nearest(molecule, number)
            alike = self.vectors @ vector
            close = alike.argsort(descending=True, stable=True)[:number].tolist()
            warning = ""
            if near[0][1] < self.least:
                warning = f"unlike all training molecules: the largest similarity is {near[0][1]:.3f}, but {self.least:.3f} or more is usual"
            warnings.append(warning)
            cells = [
                _joined(self.rows[i] for i, _ in near),
                _joined(self.texts[i].strip() for i, _ in near),
                _joined(f"{value:.3f}" for _, value in near),
                _joined(self.rows[i] for i in close),
                _joined(f"{float(alike[i]):.3f}" for i in close),
            ]
            for name, cell in zip(NEAREST, cells, strict=True):
                found[name].append(cell)
        return found, warnings

    def _vectors(self, pack: GraphPack) -> Float[Tensor, "graphs channels"]:
        """The pooled vectors, scaled to length 1."""
        found = self.model.vectors(pack, torch.arange(len(pack)), self.callback)
        return torch.nn.functional.normalize(found, dim=1)


def read_training(
    file: Path, config: DataConfig, callback: Callback
) -> "tuple[pd.DataFrame, list[Molecule | None], list[Data | None]]":
    """The training molecules that a run keeps: their table, the molecules, and their graphs without descriptors; none is None."""
    from reign.data.molecules import graphs_of, need_columns, read_molecules, read_table

    table, odd = read_table(file)
    need_columns(table.columns, ["row", *config.smiles_columns], file)
    molecules, wrong = read_molecules(table, config.smiles_columns, odd, config.stereo_of_graphs, callback.track)
    graphs, wrong = graphs_of(callback.track(molecules, "making graphs"), wrong)
    if wrong or not graphs:
        row, reason = next(iter(wrong.items()), (0, "there is no molecule"))
        raise ValueError(f"{file} is damaged (line {row + 2}: {reason}).")
    return table, molecules, graphs


def training_molecules(ensemble: TrainedEnsemble, callback: Callback) -> TrainingMolecules:
    """The training molecules of a run. Raise ``ValueError`` if there are several runs, or if the run does not keep all that is needed."""
    if len(ensemble.folders) > 1:
        raise ValueError(f"--nearest needs a single run, but {len(ensemble.folders)} were given, each with its own molecules.")
    data = ensemble.recipe.data
    if data.descriptors_columns or data.descriptors_path:
        raise ValueError(
            "--nearest is not possible for a run with descriptors from a table, because a run does not keep them; leave --nearest out."
        )
    with ensemble.given_names():
        return TrainingMolecules(ensemble.runs[0], data, ensemble.models[0], callback)


def _joined(parts: Any) -> str:
    return "; ".join(parts)
