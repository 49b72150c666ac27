"""What is computed for tables of molecules: predictions, or the pooled vectors of the models."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch

from reign.data import GraphPack
from reign.train.domain import COLUMN as WARNING
from reign.train.engine.callbacks import Callback
from reign.train.nearest import COLUMNS, TrainingMolecules
from reign.train.prediction_plan import Plan
from reign.train.prediction_table import column_names
from reign.train.uncertainty import PASSES

if TYPE_CHECKING:
    from reign.train.predictor import Predictor


Cells = tuple[Any, ...]


class Job(ABC):
    """What is computed for graphs.

    Args:
        columns: the new columns with their types, ``float`` or ``str``.
        passes: number of times that a model runs over all graphs, for the progress.
    """

    def __init__(self, columns: dict[str, type], passes: int) -> None:
        self.columns, self.passes = columns, passes

    @abstractmethod
    def cells(self, graphs: GraphPack, texts: list[str], callback: Callback) -> tuple[list[Cells], dict[int, str]]:
        """The cells of each graph, in the order of ``columns``, and the reasons for graphs that have none.

        Args:
            graphs: the graphs.
            texts: the SMILES of each graph.
            callback: receives progress events.
        """


class ForecastJob(Job):
    """Predictions, with uncertainties, warnings and the nearest training molecules where they are wanted.

    Args:
        predictor: the models.
        plan: what to compute.
        nearest: number of training molecules to list; ``trained_on`` must then be set.
    """

    def __init__(self, predictor: "Predictor", plan: Plan, nearest: int | None = None) -> None:
        self.predictor, self.plan, self.nearest = predictor, plan, nearest
        self.trained_on: TrainingMolecules | None = None
        names = column_names(predictor.targets, predictor.classes, plan.method is not None, list(plan.intervals))
        words = {f"{predictor.targets[0]}_pred"} if predictor.classes else set()
        columns: dict[str, type] = {name: str if name in words else float for name in names}
        columns |= dict.fromkeys(COLUMNS if nearest is not None else (), str)
        passes = len(predictor.models) * (1 + PASSES * (plan.method == "dropout")) + (nearest is not None)
        super().__init__(columns | dict.fromkeys([WARNING] if plan.warnings else (), str), passes)

    def cells(self, graphs: GraphPack, texts: list[str], callback: Callback) -> tuple[list[Cells], dict[int, str]]:
        """The predictions of each graph, and the reasons for graphs that cannot be predicted."""
        found, errors = self.predictor.forecasts(graphs, self.plan, callback)
        good = [g for g in range(len(graphs)) if g not in errors]
        if self.nearest is not None and good:
            assert self.trained_on is not None
            from reign.data.molecules import Molecule

            molecules = [Molecule.read(texts[g]) for g in good]
            near, unlike = self.trained_on.columns(molecules, graphs.select(torch.tensor(good)), self.nearest)
            found |= near
            if self.plan.warnings:
                found[WARNING] = ["; ".join(filter(None, both)) for both in zip(found[WARNING], unlike, strict=True)]
        rows: list[Cells] = [()] * len(graphs)
        for g, *cells in zip(good, *(found[name] for name in self.columns if good), strict=True):
            rows[g] = tuple(cells)
        return rows, errors


class VectorJob(Job):
    """The pooled vectors of each model, from which its head predicts.

    Args:
        predictor: the models.
    """

    def __init__(self, predictor: "Predictor") -> None:
        self.predictor, several = predictor, len(predictor.models) > 1
        names = [
            f"model_{m}_fp_{c}" if several else f"fp_{c}"
            for m, model in enumerate(predictor.models)
            for c in range(model.vector_channels)
        ]
        super().__init__(dict.fromkeys(names, float), len(predictor.models))

    def cells(self, graphs: GraphPack, texts: list[str], callback: Callback) -> tuple[list[Cells], dict[int, str]]:
        """The vectors of each graph, and the reasons for graphs that are too large."""
        failed: dict[int, str] = {}
        ids = torch.arange(len(graphs))
        models = [model.in_large_batches() for model in self.predictor.models]
        found = torch.cat([model.vectors(graphs, ids, callback, failed) for model in models], dim=1)
        return [tuple(row) for row in found.tolist()], failed
