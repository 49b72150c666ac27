"""The models of finished runs as one ensemble: what they are read from, their mean, and its uncertainty."""

import shutil
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.data import Data

from reign._validate import check
from reign.data import GraphPack, Ids
from reign.nn import Model
from reign.train.engine.batches import Budget, mean_pairs
from reign.train.engine.callbacks import Callback
from reign.train.engine.inference import Inference
from reign.train.predict.calibration import FEWEST, Calibration, Interval
from reign.train.predict.forest import Forest, describe
from reign.train.predict.gaussian import GaussianProcess
from reign.train.runs.run import ModelFiles, Run
from reign.train.runs.scaler import Scale
from reign.train.runs.share import unpack
from reign.train.settings.config import PARTNERS, DataConfig, Partner, Recipe, TrainingConfig
from reign.train.settings.losses import LOSSES, as_values

PAIRS = 65_536  # number of pairs (subgraph, node) of a batch: larger ones are hardly faster on a CPU
METHODS = ("ensemble", "dropout", "mve")
WHY_NOT = {
    "ensemble": "A single model has no spread. Train several models with --ensemble-size 5, or give several runs by repeating --model-paths.",
    "dropout": "The model has no dropout. Train it with --dropout 0.1.",
    "mve": "The model predicts no variance. Train it with --loss-function mve.",
}
KINDS: dict[Partner, type[Forest] | type[GaussianProcess]] = {"forest": Forest, "gp": GaussianProcess}
PASSES = 10  # number of passes of each model with dropout
CALIBRATIONS = ("temperature", "isotonic", "none")


def without_targets(data: Data, trained_on: DataConfig) -> Data:
    """The features of a graph alone; its edges get the type 0 if those of the training data did."""
    attr = data.edge_attr
    if trained_on.one_edge_type and attr is None:
        attr = data.edge_index.new_zeros(data.edge_index.size(1))
    return Data(x=data.x, edge_index=data.edge_index, edge_attr=attr)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model that predicts as in training, with the same scale of targets, the same batch size and the same number format.

    Args:
        folder: the folder of the model in the run.
        model: the model with the weights that the run reports.
        scale: converts the outputs of the model to the units of the targets.
        config: the settings it was trained with.
        num_outputs: number of targets or classes.
        least_pairs: number of pairs (subgraph, node) of a batch at least. Larger batches are faster; the last bits of outputs depend on them.
    """

    folder: Path
    model: Model
    scale: Scale
    config: TrainingConfig
    num_outputs: int
    least_pairs: int = 0

    @classmethod
    def load(
        cls, folder: Path, report: str, config: TrainingConfig, num_outputs: int, device: str | torch.device
    ) -> "TrainedModel":
        """Read the weights of the best or the last epoch, as selected by ``report``."""
        files = ModelFiles(folder)
        model, scale = Model.from_pretrained(files.weights(report)), Scale.load(files.scale)
        per_target = _outputs(config)
        if model.out_channels != num_outputs * per_target or scale.mean.numel() not in (1, num_outputs):
            raise ValueError(
                f"the model in {files.weights(report)} has {model.out_channels} outputs and {scale.mean.numel()} scales of targets, expected "
                f"{num_outputs * per_target}, {per_target} for each target or class of the run."
            )
        return cls(folder, model.to(device), scale, config, num_outputs)

    def outputs(
        self,
        graphs: GraphPack,
        ids: Ids,
        callback: Callback,
        failed: dict[int, str] | None = None,
        rows: Sequence[str] | None = None,
    ) -> Float[Tensor, "graphs outputs"]:
        """The outputs of the model for some graphs, in the units of the targets (logits for classes).

        Args:
            graphs: all graphs.
            ids: the graphs to predict for.
            callback: receives an event after every batch.
            failed: dictionary that receives the graphs that are too large for the memory, with the reasons. Without it, such graphs raise
                an error.
            rows: the table rows of the graphs, for messages.
        """
        return self.raw_outputs(graphs, ids, callback, failed, rows)[:, : self.num_outputs]

    def in_large_batches(self) -> "TrainedModel":
        """The same model with batches of a size that suits predictions."""
        return replace(self, least_pairs=PAIRS)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.model.parameters()).device

    @property
    def gives_variance(self) -> bool:
        """Whether it was trained to predict a variance for each target."""
        return _outputs(self.config) == 2

    def raw_outputs(
        self,
        graphs: GraphPack,
        ids: Ids,
        callback: Callback,
        failed: dict[int, str] | None = None,
        rows: Sequence[str] | None = None,
        dropped: int | None = None,
        width: int | None = None,
        scale: Scale | None = None,
    ) -> Float[Tensor, "graphs outputs"]:
        """As ``outputs``, with variances in further columns if the model predicts them.

        Args:
            graphs, ids, callback, failed, rows: as above.
            dropped: seed of the dropout, which is then applied as in training; no dropout if not given.
            width, scale: number of columns that the model returns, and their scale; those of the targets if not given.
        """
        width = self.num_outputs * _outputs(self.config) if width is None else width
        scale = self.scale.of_loss(_outputs(self.config)) if scale is None else scale
        first = next(self.model.parameters())
        own = graphs.to(first.device, first.dtype)
        budget = Budget(self.model, own, first.device, self.config.max_pairs, "the input", callback, rows)
        size = self.config.batch_size
        if dropped is None and self.least_pairs and len(own):  # what is dropped depends on the batches
            few = budget.bound / 2 / max(1.0, float(budget.pairs.double().mean()))  # so that batches are hardly ever split
            size = max(size, int(min(few, self.least_pairs / max(1.0, mean_pairs(self.model, own, budget.pairs)))))
        inference = Inference(
            self.model, own, width, scale, budget, size, self.config.precision, callback, failed=failed, dropped=dropped
        )
        return inference(ids, "predict")

    def vectors(
        self, graphs: GraphPack, ids: Ids, callback: Callback, failed: dict[int, str] | None = None
    ) -> Float[Tensor, "graphs channels"]:
        """The pooled vectors that the head predicts from.

        Args:
            graphs, ids, callback, failed: as above.
        """
        width, head = self.vector_channels, self.model.head
        plain = Scale(torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64))
        self.model.head = None
        try:
            return self.raw_outputs(graphs, ids, callback, failed, width=width, scale=plain)
        finally:
            self.model.head = head

    @property
    def vector_channels(self) -> int:
        """The number of channels of the pooled vectors."""
        width = getattr(getattr(self.model, "pooling", None), "out_channels", None)
        if not isinstance(width, int) or self.model.head is None:
            raise ValueError(f"{type(self.model).__name__} has no pooled vectors that a head predicts from.")
        return width


class TrainedEnsemble:
    """The models of one or several runs, and what the runs say about them.

    A single run is calibrated on its validation rows; several runs together are not calibrated. A run that was trained with ``ensemble_with``
    predicts with its forest and its Gaussian process, too, each of which counts as much as the models.

    Args:
        folders: the folders of the runs, or zips made by ``reign export``.
        device: where to compute.
        best: whether to use only the model with the best validation metric of each run.
    """

    def __init__(self, *folders: str | Path, device: str | torch.device = "cpu", best: bool = False) -> None:
        self.paths, self.best = [Path(folder) for folder in folders], best
        places = [path.resolve() for path in self.paths]
        if twice := [path for path, place in zip(self.paths, places, strict=True) if places.count(place) > 1]:
            raise ValueError(f"the run {twice[0]} is given {len(twice)} times, so that models agree with themselves; give it once.")
        self.folders = [self._folder(path) for path in self.paths]
        with self.given_names():
            self._read(self.folders, device, best)

    @contextmanager
    def given_names(self) -> Iterator[None]:
        """Errors name the given zips, not the temporary folders into which they were unpacked."""
        try:
            yield
        except ValueError as error:
            message = str(error)
            for path, folder in zip(self.paths, self.folders, strict=True):
                message = message.replace(str(folder), str(path))
            raise ValueError(message) from None

    def _folder(self, path: Path) -> Path:
        """The folder of a run. A zip is unpacked into a temporary folder, which is removed with this object."""
        if not path.is_file():
            return path
        folder = unpack(path)
        weakref.finalize(self, shutil.rmtree, folder, True)
        return folder

    def _read(self, folders: list[Path], device: str | torch.device, best: bool) -> None:
        self.runs = runs = [Run.open(folder) for folder in folders]
        problem = runs[0].problem
        self.task, self.targets, self.classes, self.fingerprint = (
            problem.task,
            problem.targets,
            problem.classes,
            problem.fingerprint,
        )
        told = (self.task, self.targets, self.classes)
        if other := next((p for p in (run.problem for run in runs) if (p.task, p.targets, p.classes) != told), None):
            raise ValueError(
                f"{folders[0]} predicts {self.targets} and another run {other.targets}; expected runs with the same targets."
            )
        self.recipe: Recipe = runs[0].recipe
        if any(run.recipe.data.inputs != self.recipe.data.inputs for run in runs):
            raise ValueError(
                f"{folders[0]} and another run were trained on different inputs, such as other descriptors or another feature of chirality (data.stereo); expected runs with the same inputs."
            )
        self.calibration = runs[0].calibration if len(runs) == 1 and not best else Calibration()
        self.models: list[TrainedModel] = []
        self.partners: dict[Path, Forest | GaussianProcess] = {}  # by their files
        self.partner_files: list[Path] = []  # for each model, those of its partners
        for run in runs:
            self.metric: str = run.summary.metric
            for member in [run.best_member] if best else run.members:
                outputs = len(problem.labels)
                self.models.append(TrainedModel.load(member.folder, run.summary.report, run.recipe.train, outputs, device))
                for name in run.recipe.ensemble_with:
                    self.partner_files.append(file := run.partner_of(member.folder, name))
                    self.partners[file] = self.partners.get(file) or KINDS[name].load(file, outputs)

    def files(self) -> list[Path]:
        """All files that predictions depend on."""
        found: list[Path] = []
        for files in (run.files for run in self.runs):
            found += [files.recipe, files.problem, files.summary, files.calibration, files.training, files.domain]
        for own in (ModelFiles(model.folder) for model in self.models):
            found.append(own.scale)
            found += [own.weights(kind) / name for kind in ("best", "last") for name in ("model.safetensors", "config.json")]
        return [*found, *self.partners]

    @property
    def beside_words(self) -> str:
        """What predicts beside the models, as "the forest and the Gaussian process"; empty for nothing."""
        return " and ".join(
            PARTNERS[name] for name in dict.fromkeys(name for run in self.runs for name in run.recipe.ensemble_with)
        )

    def beside(
        self, graphs: GraphPack, columns: Sequence[Sequence[str]] | None, callback: Callback, num_workers: int | None = None
    ) -> Float[Tensor, "partners graphs outputs"] | None:
        """The predictions of the partners of each model, in the form of ``Forecast.values``; None if there are none.

        Args:
            graphs: molecules.
            columns: their SMILES, for each column of the table; None if they are not known.
            callback: receives progress events.
            num_workers: as in ``describe``.
        """
        if not self.partners:
            return None
        if columns is None:
            raise ValueError(f"the run predicts with {self.beside_words}, too, from SMILES; predict for SMILES, not for graphs.")
        described = describe(graphs, columns, self.recipe.data, callback, num_workers)
        values = {file: partner(described) for file, partner in self.partners.items()}
        return torch.stack([values[file] for file in self.partner_files])

    def outputs(
        self,
        graphs: Sequence[Data] | GraphPack,
        ids: Ids | None = None,
        callback: Callback | None = None,
        failed: dict[int, str] | None = None,
    ) -> Float[Tensor, "models graphs outputs"]:
        """The outputs of every model for every selected graph, in the units of the targets (logits for classes).

        Args:
            graphs: all graphs.
            ids: the graphs to predict for; all if not given.
            callback: receives progress events.
            failed: dictionary that receives the graphs that are too large for the memory, with the reasons; their outputs are NaN.
                Without it, such graphs raise an error.
        """
        pack = (
            graphs if isinstance(graphs, GraphPack) else GraphPack.of([without_targets(data, self.recipe.data) for data in graphs])
        )
        chosen = torch.arange(len(pack)) if ids is None else ids
        return torch.stack([model.outputs(pack, chosen, callback or Callback(), failed) for model in self.models])

    def need_smiles(self, advice: str) -> None:
        """Raise ``ValueError`` unless the models were trained on SMILES."""
        if not self.recipe.data.reads_smiles:
            raise ValueError(f"this run was trained on {self.recipe.data.name}, not on a CSV of molecules; {advice}")


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predictions (probabilities for classes), with a standard deviation of each if there is a method of uncertainty.

    Args:
        values: the mean over models.
        unsure: the deviations, not calibrated; None without a method.
    """

    values: Float[Tensor, "graphs outputs"]
    unsure: Float[Tensor, "graphs outputs"] | None


def methods_of(models: Sequence[TrainedModel], partners: bool = False) -> list[str]:
    """The methods that some models support: "mve" if they were trained with this loss, "ensemble" if there are several, or partners, "dropout" if
    they have dropout.

    The first one is the default, except "dropout", which takes ten times as long and is used only on request.
    """
    can = {
        "mve": all(model.gives_variance for model in models),
        "ensemble": partners or len(models) > 1,
        "dropout": all(has_dropout(model.model) for model in models),
    }
    return [method for method, possible in can.items() if possible]


def has_dropout(model: nn.Module) -> bool:
    """Whether a model has dropout."""
    return any(isinstance(module, nn.Dropout) and module.p > 0 for module in model.modules())


def forecast(
    models: Sequence[TrainedModel],
    graphs: GraphPack,
    ids: Ids,
    task: str,
    method: str | None,
    callback: Callback,
    failed: dict[int, str] | None = None,
    beside: Float[Tensor, "partners every outputs"] | None = None,
) -> Forecast:
    r"""The mean over models and partners, and its standard deviation by a method.

    With M models that give means and variances, the variance of the mixture is

    .. math:: \sigma^2 = \frac{1}{M} \sum_m \sigma_m^2 + \frac{1}{M} \sum_m (\mu_m - \bar\mu)^2

    Args:
        models: the models.
        graphs: all graphs.
        ids: the graphs to predict for.
        task: the task, as in ``Problem``.
        method: one of ``METHODS``; None for no deviation.
        callback: receives an event after every batch.
        failed: dictionary that receives the graphs that are too large for the memory, with the reasons. Without it, such graphs raise an error.
        beside: the predictions of partners for all graphs, see ``TrainedEnsemble.beside``.
    """
    raw = [model.raw_outputs(graphs, ids, callback, failed) for model in models]  # some may have variances, and others not
    width = models[0].num_outputs
    each = as_values(torch.stack([out[:, :width] for out in raw]), task)
    each = each if beside is None else torch.cat([each, beside[:, ids].to(each)])
    values = each.mean(0)
    if method == "ensemble":
        return Forecast(values, each.std(0))
    if method == "mve":
        variances = torch.stack([out[:, width:] for out in raw])
        return Forecast(values, (variances.mean(0) + each.var(0, correction=0)).sqrt())
    if method == "dropout":
        passes = [
            as_values(model.raw_outputs(graphs, ids, callback, failed, dropped=draw)[:, :width], task)
            for model in models
            for draw in range(PASSES)
        ]
        return Forecast(values, torch.stack(passes).std(0))
    return Forecast(values, None)


@dataclass(frozen=True)
class ForecastPlan:
    """What to compute in addition to predictions.

    Args:
        method: the method of uncertainty; None for no uncertainty.
        calibration: the calibration of probabilities, one of ``CALIBRATIONS``.
        alpha: the share of rows that may lie outside their interval.
        intervals: the calibrated intervals by target.
        warnings: whether to mark molecules and predictions beyond the domain of the models.
    """

    method: str | None
    calibration: str
    alpha: float
    intervals: dict[str, Interval]
    warnings: bool = True


def make_plan(
    ensemble: TrainedEnsemble, uncertainty: str | bool, calibration: str | None, alpha: float, warnings: bool = True
) -> ForecastPlan:
    """Make the plan. Raise ``ValueError`` for anything that the models do not support.

    Args:
        ensemble: the models and their calibration.
        uncertainty, calibration, alpha, warnings: as in ``Predictor.predict_file``.
    """
    can = methods_of(ensemble.models, bool(ensemble.partners))
    method = next((m for m in can if m != "dropout"), None) if uncertainty is True else uncertainty or None
    if method is not None and method not in METHODS:
        raise ValueError(f"the method of uncertainty is {method!r}, expected {', '.join(METHODS)}, or none.")
    if method is not None and method not in can:
        raise ValueError(f"uncertainty by '{method}' is not possible. {WHY_NOT[method]}")
    check("alpha", alpha, isinstance(alpha, int | float) and 0 < alpha < 1, "a number above 0 and below 1")
    check("calibration", calibration, calibration is None or calibration in CALIBRATIONS, ", ".join(CALIBRATIONS))
    if ensemble.task == "regression" and calibration not in (None, "none"):
        raise ValueError(f"calibration by '{calibration}' is for classes, but the targets are numbers; leave it out.")
    known = {"temperature": ensemble.calibration.temperature, "isotonic": ensemble.calibration.isotonic}
    if ensemble.task != "regression" and calibration in known and not known[calibration]:
        raise ValueError(
            f"calibration by '{calibration}' is not possible: it needs a single run in which a target has at least {FEWEST} validation labels of both classes"
            + ("; for several classes, only temperature is possible." if ensemble.task == "multiclass" else ".")
        )
    intervals = {} if calibration == "none" or method is None else ensemble.calibration.intervals.get(method, {})
    intervals = {target: each for target, each in intervals.items() if target in ensemble.targets}
    for each in intervals.values():
        each.factor(alpha)
    return ForecastPlan(method, calibration or "none", alpha, intervals, warnings)


def why_no_intervals(ensemble: TrainedEnsemble, plan: ForecastPlan, calibration: str | None) -> str | None:
    """The reason why a plan has no intervals; None if it has some."""
    if plan.intervals:
        return None
    if ensemble.task != "regression":
        return "the targets are classes, which have probabilities in place of intervals"
    if calibration == "none":
        return "intervals are calibrated, and the calibration method is none"
    if len(ensemble.folders) > 1:
        return "intervals belong to one run, and several were given"
    if ensemble.best:
        return "intervals belong to all models of a run together, and only the best one is used"
    if ensemble.recipe.folds is not None:
        return "all rows of a run by folds were trained on, so none is left to calibrate intervals with"
    return f"the run has fewer than {FEWEST} validation labels to calibrate intervals with"


def _outputs(config: TrainingConfig) -> int:
    """Number of outputs for each target."""
    return 1 if config.loss is None else LOSSES[config.loss].outputs
