"""A run that was trained, to predict with."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from reign.data.pack import GraphPack
from reign.disk import read_json
from reign.nn.model import Model
from reign.train import batches
from reign.train.build import make_problem
from reign.train.metrics import metric
from reign.train.recipe import Recipe
from reign.train.results import combine
from reign.train.watch import Watch

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
        if other := next((a for a in about if {**a, "name": ""} != {**about[0], "name": ""}), None):
            raise ValueError(
                f"{folders[0]} predicts {about[0]['targets']} and another run {other['targets']}; expected the same of all."
            )
        self.recipe = Recipe.load(Path(folders[0]) / "recipe.yaml")
        self.task, self.targets, self.classes = about[0]["task"], about[0]["targets"], about[0]["classes"]
        self.device = torch.device(device)
        self.members: list[Path] = []
        self.models: list[Model] = []
        for folder in map(Path, folders):
            self.summary = read_json(folder / "summary.json")
            for member in self.summary["members"]:
                self.members.append(folder / member["folder"])
                self.models.append(Model.from_pretrained(self.members[-1] / self.summary["report"]).to(self.device))
        self.scales = [read_json(m / "scale.json") for m in self.members]

    @property
    def reads_smiles(self) -> bool:
        """Was it trained on molecules given as SMILES?"""
        return self.recipe.data.name in ("csv", "molhiv")

    def predict(self, inputs: Sequence[Any], watch: Watch | None = None) -> "pd.DataFrame":
        """A table with a row for each input: ``<target>_pred``, ``<target>_unc`` with several models, and ``error``.

        Args:
            inputs: SMILES, or PyG graphs with the features of the training data.
            watch: is told of progress.
        """
        import pandas as pd

        texts = [i for i in inputs if isinstance(i, str)]
        if texts and len(texts) != len(inputs):
            raise ValueError(f"got {len(texts)} SMILES and {len(inputs) - len(texts)} other inputs, expected all of one kind.")
        if texts and not self.reads_smiles:
            raise ValueError(
                f"this run learned from {self.recipe.data.name}, not from SMILES; give it PyG graphs of the same kind."
            )
        graphs, errors = _read(inputs)
        good = [i for i, data in enumerate(graphs) if data is not None]
        table = pd.DataFrame(index=range(len(inputs)))
        if texts:
            table["smiles"] = list(inputs)
        columns = self._columns(self.outputs([graphs[i] for i in good], watch)) if good else self._columns(None)
        for name, values in columns.items():
            column = pd.Series(
                [None] * len(inputs), dtype=object if self.task == "multiclass" and name.endswith("_pred") else float
            )
            for place, value in zip(good, values, strict=True):
                column[place] = value
            table[name] = column
        table["error"] = [errors.get(i, "") for i in range(len(inputs))]
        return table

    @torch.no_grad()
    def outputs(self, graphs: "Sequence[Data] | GraphPack", watch: Watch | None = None) -> Tensor:
        """What every model gives for every graph, in the units of the targets (logits for classes)."""
        pack = graphs if isinstance(graphs, GraphPack) else GraphPack.of([_bare(data) for data in graphs])
        size, total = self.recipe.train.batch_size, len(pack) * len(self.models)
        found = []
        for m, (model, scale) in enumerate(zip(self.models, self.scales, strict=True)):
            own = pack.to(self.device, next(model.parameters()).dtype)
            pairs = batches.pairs_of(model, own)
            bound = self.recipe.train.max_pairs or batches.affordable_pairs(model, self.device)
            rows = []
            for chunk in torch.arange(len(own)).split(size):
                for part in batches.parts(chunk, pairs, bound):
                    b = own.batch(part)
                    rows.append(model(b.x, b.edge_index, b.edge_attr, b.batch, b.size).double().cpu())
                if watch is not None:
                    watch.batch("predict", m * len(own) + int(chunk[-1]) + 1, total)
            found.append(torch.cat(rows) * torch.tensor(scale["deviation"]).double() + torch.tensor(scale["mean"]).double())
        return torch.stack(found)

    def evaluate(self, split: str = "test", watch: Watch | None = None) -> dict[str, Any]:
        """The metric of every model, and of their mean, on a split of the data of the run, all computed anew."""
        problem, _ = make_problem(self.recipe.data)
        place = {name: i for i, name in enumerate(problem.names)} if problem.names is not None else None
        outs = self.outputs(problem.graphs, watch)
        name = self.summary["metric"]
        values, chosen = [], []
        for member, out in zip(self.members, outs, strict=True):
            saved = read_json(member / "splits.json")
            if split not in saved:
                raise ValueError(f"the run has no split '{split}'; it has {', '.join(saved)}.")
            ids = torch.tensor([place[str(row)] for row in saved[split]] if place is not None else saved[split])
            values.append(metric(name, out[ids], problem.y[ids]))
            chosen.append(ids)
        result: dict[str, Any] = {"metric": name, "split": split, "models": values}
        if all(torch.equal(ids, chosen[0]) for ids in chosen):
            result["ensemble"] = self.score(outs[:, chosen[0]], problem.y[chosen[0]])
        return result

    def score(self, outs: Tensor, y: Tensor) -> float:
        """The metric of the mean of all models."""
        mean, _ = combine(outs, self.task)
        return metric(self.summary["metric"], torch.logit(mean, eps=1e-12) if self.task == "classification" else mean, y)

    def _columns(self, outs: Tensor | None) -> dict[str, list[Any]]:
        """Names and values of the columns of a table of predictions."""
        mean, unsure = (
            combine(outs, self.task) if outs is not None else (torch.zeros(0, max(len(self.classes), len(self.targets))),) * 2
        )
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
    return about


def _read(inputs: Sequence[Any]) -> tuple[list[Any], dict[int, str]]:
    if not inputs or not isinstance(inputs[0], str):
        for i, data in enumerate(inputs):
            if not isinstance(data, Data):
                raise ValueError(f"input {i} is of type {type(data).__name__}, expected SMILES or PyG graphs.")
        return list(inputs), {}
    from reign.data.smiles import from_smiles

    graphs: list[Any] = []
    errors = {}
    for i, text in enumerate(inputs):
        try:
            graphs.append(from_smiles(text))
        except ValueError as error:
            graphs.append(None)
            errors[i] = str(error)
    return graphs, errors


def _bare(data: Data) -> Data:
    """A graph without its targets."""
    return Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr)
