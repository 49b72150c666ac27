"""The applicability domain of a model: the most similar training molecules, by fingerprints and by the vectors of the model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from reign.data import GraphPack, Problem
from reign.disk import write_csv
from reign.train.engine.callbacks import Callback
from reign.train.inputs import descriptors_of
from reign.train.runs.run import Run
from reign.train.settings.config import DataConfig
from reign.train.trained_model import TrainedModel

if TYPE_CHECKING:
    import pandas as pd
    from torch_geometric.data import Data

    from reign.data.molecules import Molecule
    from reign.train.predictor import Predictor

COLUMNS = ["nearest_rows", "nearest_smiles", "nearest_similarity", "vector_rows", "vector_similarity"]
FAR = 0.7  # a molecule is unlike all training molecules if it is less similar than this share of what is usual among them


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
        graphs, _ = descriptors_of(config).extend(graphs, molecules, {}, progress=callback.track)
        self.rows = list(table["row"])
        self.texts = [".".join(texts) for texts in zip(*(table[column] for column in config.smiles_columns), strict=True)]
        self.neighbours = Neighbours(molecules)
        self.least = FAR * self.neighbours.usual()
        self.model, self.callback = model, callback
        self.vectors = self._vectors(GraphPack.of([data for data in graphs if data is not None]))

    def columns(self, molecules: "Sequence[Molecule]", pack: GraphPack, number: int) -> tuple[dict[str, list[str]], list[str]]:
        """The columns for predicted molecules, and a warning for each molecule; empty where there is no reason for one.

        Args:
            molecules: the molecules.
            pack: their graphs.
            number: number of neighbours.
        """
        found: dict[str, list[str]] = {name: [] for name in COLUMNS}
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
            for name, cell in zip(COLUMNS, cells, strict=True):
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
        return TrainingMolecules(predictor.runs[0], data, predictor.models[0], callback)


def _joined(parts: Any) -> str:
    return "; ".join(parts)
