"""A run that was trained, to predict with."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from reign.data import GraphPack, Ids
from reign.disk import read_json
from reign.nn import Model
from reign.train.budget import Budget
from reign.train.build import make_problem
from reign.train.callbacks import Watch
from reign.train.config import Recipe
from reign.train.metrics import metric
from reign.train.results import as_outputs, as_values, spread_of
from reign.train.target_scaler import Scale

if TYPE_CHECKING:
    import pandas as pd


class Predictor:
    """All models of a run, or of several; their mean is the prediction, their spread the uncertainty.

    Args:
        folders: of the runs.
        device: where to compute.
    """

    def __init__(self, *folders: str | Path, device: str | torch.device = "cpu") -> None:
        about = [_about(Path(folder)) for folder in folders]
        if other := next((a for a in about if any(a[key] != about[0][key] for key in ("task", "targets", "classes"))), None):
            raise ValueError(
                f"{folders[0]} predicts {about[0]['targets']} and another run {other['targets']}; expected the same of all."
            )
        self.recipe = Recipe.load(Path(folders[0]) / "recipe.yaml")
        self.task, self.targets, self.classes = about[0]["task"], about[0]["targets"], about[0]["classes"]
        self.fingerprint = about[0]["fingerprint"]
        self.device = torch.device(device)
        self.members: list[Path] = []
        self.models: list[Model] = []
        for folder in map(Path, folders):
            self.summary = read_json(folder / "summary.json")
            for member in self.summary["members"]:
                self.members.append(folder / member["folder"])
                self.models.append(_model(self.members[-1] / self.summary["report"]).to(self.device))
        self.scales = [read_json(m / "scale.json") for m in self.members]

    @property
    def reads_smiles(self) -> bool:
        """Was it trained on molecules given as SMILES?"""
        return self.recipe.data.name in ("csv", "molhiv")

    def predict(self, inputs: Iterable[Any], watch: Watch | None = None) -> "pd.DataFrame":
        """A table with a row for each input: ``<target>_pred``, ``<target>_unc`` with several models, and ``error``.

        Args:
            inputs: SMILES, or PyG graphs with the features of the training data.
            watch: is told of progress.
        """
        inputs = [inputs] if isinstance(inputs, str | Data) else list(inputs)
        texts = [i for i in inputs if isinstance(i, str)]
        if texts and len(texts) != len(inputs):
            raise ValueError(f"got {len(texts)} SMILES and {len(inputs) - len(texts)} other inputs, expected all of one kind.")
        if texts and not self.reads_smiles:
            raise ValueError(
                f"this run learned from {self.recipe.data.name}, not from SMILES; give it PyG graphs of the same kind."
            )
        table = self.table(*_read(inputs), watch)
        if texts:
            table.insert(0, "smiles", inputs)
        return table

    def table(self, graphs: Sequence[Data | None], errors: dict[int, str], watch: Watch | None = None) -> "pd.DataFrame":
        """Predictions for graphs, in their order; those that are None have an error instead."""
        import pandas as pd

        good = [i for i, data in enumerate(graphs) if data is not None]
        columns = self._columns(self.outputs([data for data in graphs if data is not None], watch=watch) if good else None)
        table = pd.DataFrame(index=range(len(graphs)))
        for name, values in columns.items():
            column = pd.Series([None] * len(graphs), dtype=object if values and isinstance(values[0], str) else float)
            for place, value in zip(good, values, strict=True):
                column[place] = value
            table[name] = column
        table["error"] = [errors.get(i, "") for i in range(len(graphs))]
        return table

    @torch.no_grad()
    def outputs(self, graphs: "Sequence[Data] | GraphPack", ids: Ids | None = None, watch: Watch | None = None) -> Tensor:
        """What every model gives for every graph, or for some, in the units of the targets (logits for classes)."""
        pack = graphs if isinstance(graphs, GraphPack) else GraphPack.of([_bare(data) for data in graphs])
        chosen = torch.arange(len(pack)) if ids is None else ids
        each = zip(self.models, self.scales, strict=True)
        found = [self._one(model, scale, pack, chosen, watch or Watch()) for model, scale in each]
        return torch.stack(found)

    def _one(self, model: Model, scale: dict[str, list[float]], pack: GraphPack, ids: Ids, watch: Watch) -> Tensor:
        own = pack.to(self.device, next(model.parameters()).dtype)
        budget = Budget(model, own, self.device, self.recipe.train.max_pairs, "the input", watch)

        def work(chunk: Ids) -> list[Tensor]:
            parts = [own.batch(part) for part in budget.parts(chunk)]
            return [model(b.x, b.edge_index, b.edge_attr, b.batch, b.size).double().cpu() for b in parts]

        rows: list[Tensor] = []
        chunks = ids.split(self.recipe.train.batch_size)
        for c, chunk in enumerate(chunks):
            rows += budget.within(partial(work, chunk), chunk)
            watch.batch("predict", c + 1, len(chunks))
        back = Scale(*(torch.tensor(scale[name], dtype=torch.float64) for name in ("mean", "deviation")))
        return back.up(torch.cat(rows))

    def evaluate(self, split: str = "test", watch: Watch | None = None) -> dict[str, Any]:
        """The metric of every model, and of their mean, on a split of the data of the run, all computed anew."""
        problem, _ = make_problem(self.recipe.data)
        if problem.graphs.fingerprint() != self.fingerprint:
            raise ValueError(f"the data of {problem.name} are not those the run learned from; evaluate on a table with -i FILE.")
        place = {name: i for i, name in enumerate(problem.names)} if problem.names is not None else None
        name = self.summary["metric"]
        ids_of = []
        for member in self.members:
            saved = read_json(member / "splits.json")
            if split not in saved:
                raise ValueError(f"the run has no split '{split}'; it has {', '.join(saved)}.")
            ids_of.append(torch.tensor([place[row] for row in saved[split]] if place is not None else saved[split]))
        if all(torch.equal(ids, ids_of[0]) for ids in ids_of):
            outs, y = self.outputs(problem.graphs, ids_of[0], watch), problem.y[ids_of[0]]
            return {
                "metric": name,
                "split": split,
                "models": [metric(name, out, y) for out in outs],
                "ensemble": self.score(outs, y),
            }
        outs = self.outputs(problem.graphs, watch=watch)
        values = [metric(name, out[ids], problem.y[ids]) for out, ids in zip(outs, ids_of, strict=True)]
        return {"metric": name, "split": split, "models": values}

    def score(self, outs: Tensor, y: Tensor) -> float:
        """The metric of the mean of all models."""
        return metric(self.summary["metric"], as_outputs(as_values(outs, self.task).mean(0), self.task), y)

    def _columns(self, outs: Tensor | None) -> dict[str, list[Any]]:
        """Names and values of the columns of a table of predictions."""
        width = len(self.classes) or len(self.targets)
        values = as_values(outs, self.task) if outs is not None else torch.zeros(len(self.models), 0, width)
        mean, unsure = values.mean(0), spread_of(values)
        several = len(self.models) > 1
        if self.task != "multiclass":
            columns = {}
            for t, target in enumerate(self.targets):
                columns[f"{target}_pred"] = mean[:, t].tolist()
                if several:
                    columns[f"{target}_unc"] = unsure[:, t].tolist()
            return columns
        target = self.targets[0]
        best = mean.argmax(1) if mean.numel() else torch.zeros(0, dtype=torch.long)
        out: dict[str, list[Any]] = {f"{target}_pred": [self.classes[int(c)] for c in best]}
        if several:
            out[f"{target}_unc"] = unsure.gather(1, best[:, None]).squeeze(1).tolist() if mean.numel() else []
        return out | {f"{target}_prob_{name}": mean[:, c].tolist() for c, name in enumerate(self.classes)}


def load(*folders: str | Path, device: str | torch.device = "cpu") -> Predictor:
    """A run that was trained, or several: ``reign.load("run").predict(["CCO", "c1ccccc1"])``."""
    if not folders:
        raise ValueError("no run was given, expected the folder of one, as reign train makes it.")
    return Predictor(*folders, device=device)


def _about(folder: Path) -> dict[str, Any]:
    """What the models of a run predict."""
    if not (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder} holds no recipe.yaml, expected the folder of a run, as reign train makes it.")
    if not (folder / "summary.json").is_file():
        raise ValueError(f"the run in {folder} is not finished; go on with: reign train --resume {folder}.")
    about: dict[str, Any] = read_json(folder / "problem.json")
    if missing := [key for key in ("task", "targets", "classes", "fingerprint") if key not in about]:
        raise ValueError(f"{folder / 'problem.json'} is damaged (it has no {missing[0]}).")
    return about


def _read(inputs: list[Any]) -> tuple[list[Data | None], dict[int, str]]:
    if not inputs or not isinstance(inputs[0], str):
        for i, data in enumerate(inputs):
            if not isinstance(data, Data):
                raise ValueError(f"input {i} is of type {type(data).__name__}, expected SMILES or PyG graphs.")
        return list(inputs), {}
    from reign.data.molecules import from_many

    return from_many(inputs)


def _bare(data: Data) -> Data:
    """A graph without its targets."""
    return Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr)


def _model(folder: Path) -> Model:
    try:
        return Model.from_pretrained(folder)
    except ValueError:
        raise
    except Exception as error:  # whatever a damaged file raises
        raise ValueError(f"the model in {folder} is damaged ({str(error).splitlines()[0]}).") from None
