"""Runs that were trained, to predict with and to measure again."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch_geometric.data import Data

from reign.data import GraphPack, Ids
from reign.train.build import make_problem
from reign.train.callbacks import Callback
from reign.train.evaluation import measure_models, split_of
from reign.train.inputs import read_inputs
from reign.train.metrics import METRICS
from reign.train.prediction_table import column_names, prediction_columns
from reign.train.recipe import Recipe
from reign.train.run_folder import read_about, read_summary
from reign.train.tasks import choose
from reign.train.trained_model import TrainedModel

if TYPE_CHECKING:
    import pandas as pd


class Predictor:
    """All models of one or several runs. Their mean is the prediction, their spread the uncertainty.

    Args:
        folders: the folders of the runs.
        device: where to compute.
    """

    def __init__(self, *folders: str | Path, device: str | torch.device = "cpu") -> None:
        about = [read_about(Path(folder)) for folder in folders]
        if other := next((a for a in about if any(a[key] != about[0][key] for key in ("task", "targets", "classes"))), None):
            raise ValueError(
                f"{folders[0]} predicts {about[0]['targets']} and another run {other['targets']}; expected the same of all."
            )
        self.recipe = Recipe.load(Path(folders[0]) / "recipe.yaml")
        self.task, self.targets, self.classes = about[0]["task"], about[0]["targets"], about[0]["classes"]
        self.fingerprint = about[0]["fingerprint"]
        self.models: list[TrainedModel] = []
        for folder in map(Path, folders):
            config = Recipe.load(folder / "recipe.yaml").train
            summary = read_summary(folder)
            self.metric: str = summary["metric"]
            for member in summary["members"]:
                place, num_outputs = folder / member["folder"], len(self.classes) or len(self.targets)
                self.models.append(TrainedModel.load(place, summary["report"], config, num_outputs, device))

    def predict(self, inputs: Iterable[Any], callback: Callback | None = None) -> "pd.DataFrame":
        """A table with a row for each input: ``<target>_pred``, ``<target>_unc`` with several models, and ``error``.

        Args:
            inputs: SMILES, or PyG graphs with the features of the training data.
            callback: is told of progress.
        """
        inputs = [inputs] if isinstance(inputs, str | Data) else list(inputs)
        graphs, errors, texts = read_inputs(inputs, self.recipe.data)
        table = self.table(graphs, errors, callback)
        if texts is not None:
            table.insert(0, "smiles", texts)
        return table

    def predict_file(
        self,
        path: str | Path,
        smiles_columns: Sequence[str] | None = None,
        *,
        uncertainty: bool = True,
        callback: Callback | None = None,
    ) -> "pd.DataFrame":
        """A table of molecules with the columns of ``predict`` beside its own; every row comes back, in order.

        Args:
            path: a CSV of molecules.
            smiles_columns: columns of SMILES; those of the training if not given.
            uncertainty: whether to give ``<target>_unc``, where there are several models.
            callback: is told of progress.
        """
        self._need_smiles("use reign.load(...).predict(graphs) from Python.")
        from reign.data.molecules import graphs_of, need_columns, read_molecules, read_table

        table, odd = read_table(path)
        columns = smiles_columns or self.recipe.data.smiles_columns
        need_columns(table, columns, path)
        new = [*column_names(self.targets, self.classes, uncertainty and len(self.models) > 1), "error"]
        if taken := [name for name in new if name in table.columns]:
            raise ValueError(f"{path} has a column '{taken[0]}' already; rename it.")
        graphs, errors = graphs_of(*read_molecules(table, columns, odd))
        found = self.table(graphs, errors, callback)
        for column in new:
            table[column] = found[column].to_numpy()
        return table

    def table(self, graphs: Sequence[Data | None], errors: dict[int, str], callback: Callback | None = None) -> "pd.DataFrame":
        """Predictions for graphs, in their order; those that are None, or that there is no prediction for, have an error instead."""
        import pandas as pd

        errors = dict(errors)
        good = [i for i, data in enumerate(graphs) if data is not None]
        columns: dict[str, list[Any]] = {name: [] for name in column_names(self.targets, self.classes, len(self.models) > 1)}
        if good:
            failed: dict[int, str] = {}
            outs = self.outputs([data for data in graphs if data is not None], callback=callback, failed=failed)
            for g in (~outs.isfinite()).any(2).any(0).nonzero().flatten().tolist():
                errors[good[g]] = failed.get(g, "the prediction is not a finite number")
            kept = [g for g in range(len(good)) if good[g] not in errors]
            good = [good[g] for g in kept]
            columns = prediction_columns(outs[:, kept], self.task, self.targets, self.classes)
        table = pd.DataFrame(index=range(len(graphs)))
        for name, values in columns.items():
            column = pd.Series([None] * len(graphs), dtype=object if values and isinstance(values[0], str) else float)
            column[good] = values
            table[name] = column
        table["error"] = [errors.get(i, "") for i in range(len(graphs))]
        return table

    def outputs(
        self,
        graphs: Sequence[Data] | GraphPack,
        ids: Ids | None = None,
        callback: Callback | None = None,
        failed: dict[int, str] | None = None,
    ) -> Float[Tensor, "models graphs outputs"]:
        """What every model gives for every graph, or for some, in the units of the targets (logits for classes).

        Args:
            graphs: all graphs.
            ids: the graphs to predict for; all if not given.
            callback: is told of progress.
            failed: takes the graphs that are too large for the memory, and why; their outputs are NaN. Without it they are an error.
        """
        pack = graphs if isinstance(graphs, GraphPack) else GraphPack.of([_without_targets(data) for data in graphs])
        chosen = torch.arange(len(pack)) if ids is None else ids
        return torch.stack([model.outputs(pack, chosen, callback or Callback(), failed) for model in self.models])

    def evaluate(
        self, split: str = "test", callback: Callback | None = None, metrics: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The metrics of every model, and of their mean, on a split of the data of the run, all computed anew.

        Args:
            split: "train", "val" or "test".
            callback: is told of progress.
            metrics: names of metrics, the main one first; those of the training if not given.
        """
        names = self._metrics(metrics)
        problem, _ = make_problem(self.recipe.data)
        if problem.graphs.fingerprint() != self.fingerprint:
            raise ValueError(f"the data of {problem.name} are not those the run learned from; evaluate on a table with -i FILE.")
        ids = [split_of(model.folder, split, problem) for model in self.models]
        outs = [
            model.outputs(problem.graphs, own, callback or Callback(), rows=problem.names)
            for model, own in zip(self.models, ids, strict=True)
        ]
        return {"split": split, **measure_models(names, problem, outs, ids)}

    def evaluate_file(
        self, path: str | Path, callback: Callback | None = None, metrics: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The same on all rows of a table of molecules with the columns of the training data.

        The result has also ``left_out``: the rows that could not be used, counted from 1, and why.
        """
        names = self._metrics(metrics)
        self._need_smiles("leave -i out.")
        from reign.data.molecules import load_table

        callback = callback or Callback()
        problem, report = load_table(path, self.recipe.data.smiles_columns, self.targets, self.task, classes=self.classes)
        callback.table(report)
        failed: dict[int, str] = {}
        outs = self.outputs(problem.graphs, callback=callback, failed=failed)
        assert problem.names is not None
        report.leave_out({int(problem.names[g]): reason for g, reason in failed.items()})
        ids = torch.tensor([g for g in range(len(problem.graphs)) if g not in failed], dtype=torch.long)
        if not ids.numel():
            row, reason = next(iter(report.left_out.items()))
            raise ValueError(f"{path} has no row to measure on; row {row}: {reason}.")
        measured = measure_models(names, problem, list(outs[:, ids]), [ids] * len(self.models))
        return {"split": Path(path).name, **measured, "rows": report.rows, "left_out": report.left_out}

    def _metrics(self, given: Sequence[str] | None) -> list[str]:
        """Metrics by their names, each of which must suit the task."""
        names = list(given) if given else [self.metric, *self.recipe.train.metrics]
        known = [str(METRICS.name_of(METRICS[name])) for name in names]
        return list(dict.fromkeys(choose(METRICS, name, self.task) for name in known))

    def _need_smiles(self, advice: str) -> None:
        if not self.recipe.data.reads_smiles:
            raise ValueError(f"this run learned from {self.recipe.data.name}, not from a CSV of molecules; {advice}")


def load(*folders: str | Path, device: str | torch.device = "cpu") -> Predictor:
    """One or several runs that were trained: ``reign.load("run").predict(["CCO", "c1ccccc1"])``."""
    if not folders:
        raise ValueError("no run was given, expected the folder of a run, as reign train makes it.")
    return Predictor(*folders, device=device)


def _without_targets(data: Data) -> Data:
    return Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr)
