"""The applicability domain of a model: the most similar training molecules, by fingerprints and by the vectors of the model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import GraphPack, Problem
from reign.disk import write_csv
from reign.train.callbacks import Callback
from reign.train.config import DataConfig
from reign.train.inputs import descriptors_of
from reign.train.trained_model import TrainedModel

if TYPE_CHECKING:
    from reign.data.molecules import Molecule
    from reign.train.predictor import Predictor

FILE = "training.csv"
COLUMNS = ["nearest_rows", "nearest_smiles", "nearest_similarity", "vector_rows", "vector_similarity", "warning"]


def keep_training(folder: Path, problem: Problem) -> None:
    """Save the training molecules of a run: the row in the table, and the columns of SMILES."""
    ids = problem.splits["train"].tolist()
    columns = [[problem.names[i] for i in ids] if problem.names else ids]
    columns += [[texts[i] for i in ids] for texts in problem.texts.values()]
    write_csv(folder / FILE, ["row", *problem.texts], zip(*columns, strict=True))


class TrainingMolecules:
    """The molecules that a run was trained on.

    Args:
        folder: the folder of the run.
        config: the settings of its table.
        model: the first model of the run, which computes the vectors.
        callback: receives progress events.
    """

    def __init__(self, folder: Path, config: DataConfig, model: TrainedModel, callback: Callback) -> None:
        from reign.data.molecules import Neighbours, graphs_of, need_columns, read_molecules, read_table

        file = folder / FILE
        if not file.is_file():
            raise ValueError(
                f"{folder} does not have the molecules that it was trained on ({FILE}): it is a cross-validation, a zip without molecules (reign export "
                "--with-molecules keeps them), or was made by an older version of reign; leave --nearest out, or train again."
            )
        smiles_columns = config.smiles_columns
        table, odd = read_table(file)
        need_columns(table.columns, ["row", *smiles_columns], file)
        molecules, wrong = read_molecules(table, smiles_columns, odd, config.stereo, callback.track)
        graphs, wrong = graphs_of(callback.track(molecules, "making graphs"), wrong)
        graphs, wrong = descriptors_of(config).extend(graphs, molecules, wrong, progress=callback.track)
        if wrong:
            row, reason = next(iter(wrong.items()))
            raise ValueError(f"{file} is damaged (line {row + 2}: {reason}).")
        self.rows, self.texts = list(table["row"]), [".".join(t) for t in zip(*(table[c] for c in smiles_columns), strict=True)]
        self.neighbours = Neighbours(molecules)
        self.usual = self.neighbours.usual()
        self.model, self.callback = model, callback
        self.vectors = self._vectors(GraphPack.of([data for data in graphs if data is not None]))

    def columns(self, molecules: "Sequence[Molecule | None]", pack: GraphPack, number: int) -> dict[str, list[Any]]:
        """The columns for predicted molecules. Molecules that are None have empty cells.

        Args:
            molecules: a molecule for each row.
            pack: the graphs of those that are not None, in order.
            number: number of neighbours.
        """
        found: dict[str, list[Any]] = {name: [""] * len(molecules) for name in COLUMNS}
        vectors = iter(self._vectors(pack)) if len(pack) else iter(())
        for row, molecule in enumerate(molecules):
            if molecule is None:
                continue
            near = self.neighbours.nearest(molecule, number)
            alike = self.vectors @ next(vectors)
            close = alike.argsort(descending=True, stable=True)[:number].tolist()
            warning = ""
            if near[0][1] < self.usual:
                warning = f"unlike all training molecules: the largest similarity is {near[0][1]:.2f}, but {self.usual:.2f} or more is usual"
            cells: list[Any] = [
                _joined(self.rows[i] for i, _ in near),
                _joined(self.texts[i].strip() for i, _ in near),
                _joined(f"{value:.3f}" for _, value in near),
                _joined(self.rows[i] for i in close),
                _joined(f"{float(alike[i]):.3f}" for i in close),
                warning,
            ]
            for name, cell in zip(COLUMNS, cells, strict=True):
                found[name][row] = cell
        return found

    def _vectors(self, pack: GraphPack) -> Float[Tensor, "graphs channels"]:
        """The pooled vectors, scaled to length 1."""
        found = self.model.vectors(pack, torch.arange(len(pack)), self.callback)
        return torch.nn.functional.normalize(found, dim=1)


def training_molecules(predictor: "Predictor", callback: Callback) -> TrainingMolecules:
    """The training molecules of a run. Raise ``ValueError`` if there are several runs, or if the run does not keep all that is needed."""
    if len(predictor.folders) > 1:
        raise ValueError(f"--nearest needs a single run, but {len(predictor.folders)} were given, each with its own molecules.")
    data = predictor.recipe.data
    if data.descriptors_columns or data.descriptors_path:
        raise ValueError(
            "--nearest is not possible for a run with descriptors from a table, because a run does not keep them; leave --nearest out."
        )
    with predictor.given_names():
        return TrainingMolecules(predictor.folders[0], data, predictor.models[0], callback)


def _joined(parts: Any) -> str:
    return "; ".join(parts)
