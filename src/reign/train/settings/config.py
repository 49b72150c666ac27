"""The base of all settings: unknown fields are errors, names are looked up in registries, and messages name the field."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from torch import nn
from torch.optim import Optimizer

from reign._validate import did_you_mean
from reign.data import find_dataset
from reign.disk import write_text
from reign.nn import FORMAT, MODELS, find_model, read_format, todays_options
from reign.registry import Registry
from reign.train.settings.losses import LOSSES
from reign.train.settings.metrics import METRICS
from reign.train.settings.optim import OPTIMISERS, SCHEDULES, Schedule
from reign.train.settings.yaml import read_yaml

if TYPE_CHECKING:
    from reign.data.molecules import Descriptors

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """Settings that reject unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(explain(error, type(self))) from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # pydantic calls it for direct calls only, not for nested settings

    @classmethod
    def check(cls: type[S], values: Any, source: str = "the recipe") -> S:
        """Make settings from plain values. A single ``ValueError`` lists every wrong field, with the closest existing names."""
        try:
            return cls.model_validate(dict(values) if isinstance(values, Mapping) else values)
        except ValidationError as error:
            raise ValueError(f"{source}: {explain(error, cls)}") from None


def name_in(registry: Registry[Any]) -> AfterValidator:
    """A validator that a name is registered. It returns the registered spelling of the name."""
    return AfterValidator(lambda name: registry.name_of(registry[name]))


def fields(settings: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted names of all fields, as used by ``--set``."""
    names = []
    for name, field in settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names += fields(kind, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def explain(error: ValidationError, settings: type[BaseModel], most: int | None = None) -> str:
    """All errors that pydantic found, or at most some, each with the field, the problem and the value."""
    return "; ".join(_explain(each, settings) for each in error.errors()[:most])


def _explain(error: ErrorDetails, settings: type[BaseModel]) -> str:
    place = [str(part) for part in error["loc"]]
    name = ".".join(place)
    if error["type"] == "extra_forbidden":
        known = [field.split(".") for field in fields(settings)]
        beside = {field[len(place) - 1] for field in known if field[: len(place) - 1] == place[:-1]}
        deeper = [field[len(place) - 1 :] for field in known if field[: len(place) - 1] == place[:-1] and field[-1] == place[-1]]
        hint = did_you_mean(place[-1], beside)
        if len(deeper) == 1:
            outer, inner = ".".join(place[:-1] + deeper[0][:-1]), place[-1]
            hint = f"; did you mean '{inner}' of '{outer}', as in {deeper[0][-2]}={{\"{inner}\": {error.get('input')!r:.100}}}?"
        return f"there is no setting '{name}'{hint} Known: {', '.join(sorted(beside))}"
    message = error["msg"].removeprefix("Value error, ").rstrip(".").split(" or instance of")[0]
    given = error.get("input")
    said = error["type"] == "value_error"  # our own messages include the value
    shown = "" if said or isinstance(given, dict | BaseModel) else f" (got {given!r:.100})"
    return f"{name + ': ' if place else ''}{message[:1].lower()}{message[1:]}{shown}"


# -- The settings of data, model and training, validated ---------------------------------------------------------------


SplitType = Literal["random", "scaffold_balanced", "butina", "kennard_stone", "kmeans"]
SPLIT_WORDS = {"random_with_repeated_smiles": "random", "scaffold": "scaffold_balanced", "cluster": "butina"}
TaskType = Literal["regression", "classification", "multiclass"]
Stereo = Literal["parity", "ogb", "none"]
Positive = Annotated[int, Field(gt=0, lt=2**31)]
Seed = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Share = Annotated[float, Field(ge=0, le=1)]
LossName = Annotated[str, name_in(LOSSES)]
MetricName = Annotated[str, name_in(METRICS)]
OptimiserName = Annotated[str, name_in(OPTIMISERS)]
ScheduleName = Annotated[str, name_in(SCHEDULES)]


class DataConfig(Settings):
    """The graphs to learn from (a data set or a CSV of molecules), the targets and the splits."""

    name: str = "csv"
    options: dict[str, Any] = Field(default_factory=dict, description="options of the data set")
    targets: list[str] | None = Field(None, description="which targets to learn; all if not given")
    num_train: Positive | None = Field(None, description="learn from this many training graphs only, drawn by the seed")
    limit: Positive | None = Field(None, description="keep at most this many graphs of each split, for quick tests")
    one_edge_type: bool = Field(
        False, description="give all edges the same type, which the model encodes, if they have no features"
    )
    path: str | None = Field(None, description="a CSV of molecules")
    smiles_columns: list[str] = Field(default_factory=lambda: ["smiles"], min_length=1)
    target_columns: list[str] | None = Field(
        None, description="columns to predict; all other columns of numbers but identifiers if not given"
    )
    task: TaskType = "regression"
    split: SplitType = Field(
        "random",
        description="how rows are split; butina and kmeans keep clusters whole, kennard_stone learns from the molecules least alike",
    )
    split_sizes: tuple[Share, Share, Share] = (0.8, 0.1, 0.1)
    splits_column: str | None = Field(None, description="a column with the values train, val and test")
    splits_file: str | None = Field(None, description="a JSON file with the rows of train, val and test, counted from 0")
    group_column: str | None = Field(None, description="a column of words; rows with the same word are in the same split")
    time_column: str | None = Field(
        None, description="a column of numbers or dates: the oldest rows for training, the newest for the test"
    )
    split_seed: Seed = 0
    split_similarity: Share = Field(0.6, description="butina: the Tanimoto similarity from which on molecules are neighbours")
    ignore_columns: list[str] = Field(default_factory=list, description="columns that are no targets if none are given")
    descriptors_columns: list[str] = Field(
        default_factory=list, description="columns of numbers that the model gets besides the graph"
    )
    descriptors_path: str | None = Field(None, description="a CSV of such numbers, with a row for each row of the table")
    molecule_featurizers: list[str] = Field(
        default_factory=list, description="such numbers by RDKit: rdkit_2d, morgan_count, morgan_binary, atom_pairs"
    )
    weight_column: str | None = Field(None, description="a column with the weight of each row in training")
    stereo: Stereo = Field(
        "parity",
        description="parity: a feature of chirality that is the same however a molecule is written; ogb: RDKit's tag, which depends on the order of "
        "atoms (the only one of runs before this setting); none: neither chirality nor E/Z",
    )

    @field_validator("split_sizes", mode="before")
    @classmethod
    def _three(cls, sizes: Any) -> Any:
        if isinstance(sizes, list | tuple) and len(sizes) != 3:
            raise ValueError(f"expected three shares that sum to 1, of train, val and test, got {len(sizes)}")
        return sizes

    @field_validator("split", mode="before")
    @classmethod
    def _in_words_of_others(cls, split: Any) -> Any:
        """As chemprop spells it; here a random split always keeps rows of one molecule together."""
        if isinstance(split, str) and split.lower() in ("cv", "cv-no-val"):
            raise ValueError("cross-validation is not a split here; --num-folds, or folds of a recipe, is the number of folds")
        return SPLIT_WORDS.get(split.lower(), split.lower()) if isinstance(split, str) else split

    @model_validator(mode="after")
    def _check(self) -> "DataConfig":
        ways = ("splits_column", "splits_file", "group_column", "time_column")
        given = [name for name in ways if getattr(self, name) is not None] + (["split"] if self.split != "random" else [])
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set, but each of them says how to split the rows; leave all but one out")
        if abs(sum(self.split_sizes) - 1) > 1e-6 or self.split_sizes[0] == 0:
            raise ValueError(f"split_sizes are {list(self.split_sizes)}, expected three shares that sum to 1, the first above 0")
        if self.name == "csv" and self.path is None:
            raise ValueError("a CSV of molecules needs a path; set data.path, or set data.name to a data set")
        if self.name != "csv" and self.path is not None:
            raise ValueError(
                f"name is '{self.name}' and path is '{self.path}', expected a data set or a CSV of molecules, not both"
            )
        if self.name == "csv" and self.options:
            raise ValueError(f"options are {self.options}, but a CSV of molecules has no options")
        if self.name == "csv" and self.one_edge_type:
            raise ValueError("one_edge_type is for graphs without edge features, but bonds of molecules have types; leave it out")
        if self.name != "csv":
            if "root" in self.options:
                raise ValueError(
                    "options.root: a recipe must not set the folder of a data set; set the environment variable REIGN_CACHE instead"
                )
            find_dataset(self.name).complete(self.options)
            fields = type(self).model_fields
            of_tables = list(fields)[list(fields).index("target_columns") :]  # these have no meaning for a data set
            if odd := [name for name in of_tables if getattr(self, name) != fields[name].get_default(call_default_factory=True)]:
                raise ValueError(f"{odd[0]} is for tables of molecules, but name is '{self.name}', a data set; leave it out")
        return self

    @property
    def fixed_split(self) -> str | None:
        """The setting that leaves no choice of the split to a seed; None if there is a choice."""
        ways = [name for name in ("splits_column", "splits_file", "time_column") if getattr(self, name) is not None]
        return ways[0] if ways else "split" if self.split == "kennard_stone" else None

    @property
    def has_descriptors(self) -> bool:
        """Whether the model gets descriptors besides the graphs."""
        return bool(self.descriptors_columns or self.descriptors_path or self.molecule_featurizers)

    def descriptors(self) -> "Descriptors":
        """The descriptors of this table."""
        from reign.data.molecules import Descriptors

        return Descriptors(self.descriptors_columns, self.descriptors_path, self.molecule_featurizers)

    def descriptors_like(self, path: str | Path | None) -> "Descriptors":
        """The same descriptors for another table, whose file of descriptors this is, if this one has such a file."""
        if path is not None and self.descriptors_path is None:
            raise ValueError("the run was trained without a file of descriptors; leave --descriptors-path out.")
        if path is None and self.descriptors_path is not None:
            raise ValueError("the run was trained with a file of descriptors; give that of this table with --descriptors-path.")
        return self.model_copy(update={"descriptors_path": path}).descriptors()

    @property
    def inputs(self) -> dict[str, object]:
        """What a model gets besides the values in the data; runs whose inputs differ cannot predict together."""
        return {
            "molecules": len(self.smiles_columns) if self.reads_smiles else self.name,
            "stereo": self.stereo_of_graphs,
            "one_edge_type": self.one_edge_type,
            "descriptors_columns": self.descriptors_columns,
            "descriptors_path": self.descriptors_path is not None,
            "molecule_featurizers": self.molecule_featurizers,
        }

    @property
    def stereo_of_graphs(self) -> Stereo:
        """What the graphs say about chirality: the setting for a CSV; each data set has its own."""
        return self.stereo if self.name == "csv" else find_dataset(self.name).stereo

    @property
    def reads_smiles(self) -> bool:
        """Whether the graphs are molecules given as SMILES."""
        return self.name == "csv" or find_dataset(self.name).reads_smiles

    @property
    def task_of_graphs(self) -> str:
        """The task: the setting for a CSV, otherwise the task of the data set."""
        return self.task if self.name == "csv" else find_dataset(self.name).task


class ModelConfig(BaseModel):
    """The model. Additional fields are arguments of its constructor."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "sun"
    hidden_channels: Annotated[int, Field(gt=0, le=100_000)] = 64
    num_layers: Annotated[int, Field(gt=0, le=1_000)] = 4

    @model_validator(mode="before")
    @classmethod
    def _null(cls, values: Any) -> Any:
        """YAML reads the name of the policy "null" as None; turn it back into the name."""
        return {**values, "policy": "null"} if isinstance(values, dict) and values.get("policy", "") is None else values

    @model_validator(mode="after")
    def _check(self) -> "ModelConfig":
        find_model(self.name)
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The additional arguments of the constructor."""
        return dict(self.model_extra or {})


class OptimiserConfig(Settings):
    """The settings of the optimiser."""

    name: OptimiserName = "adam"
    lr: Annotated[float, Field(gt=0)] = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    momentum: Share = 0.0
    sharpness: Literal["sam", "asam"] | None = Field(
        None, description="sharpness-aware minimisation: take the gradient at the worst nearby point"
    )
    rho: Annotated[float, Field(gt=0)] = 0.5
    eta: Annotated[float, Field(ge=0)] = 0.01

    def build(self, model: nn.Module) -> Optimizer:
        """The optimiser of the weights of a model."""
        weights = [p for p in model.parameters() if p.requires_grad]
        return OPTIMISERS[self.name](weights, **self.model_dump(exclude={"name"}))


class ScheduleConfig(Settings):
    """The settings of the learning-rate schedule."""

    name: ScheduleName = "constant"
    factor: Annotated[float, Field(gt=0, lt=1)] = Field(0.5, description="step, plateau: factor that the rate is multiplied by")
    every: Positive = Field(50, description="step: number of epochs between two steps")
    patience: Annotated[int, Field(ge=0)] = Field(40, description="plateau: epochs without a better validation metric")
    warmup: Share = Field(0.05, description="cosine: share of the steps in which the rate rises")
    floor: Share = Field(0.01, description="cosine: the last rate, as a share of the highest one")
    minutes: Annotated[float, Field(gt=0, le=1e5)] = Field(
        60.0, description="clock: as cosine, but over this many minutes of training"
    )

    def build(self, optimiser: Optimizer, steps: int, metric: str | None = None) -> Schedule:
        """The schedule of the learning rate over a number of steps. A plateau schedule uses the validation metric if there is one."""
        return SCHEDULES[self.name](optimiser, steps, metric, **self.model_dump(exclude={"name"}))


class TrainingConfig(Settings):
    """The settings of the training loop."""

    epochs: Positive = 100
    batch_size: Positive = 128
    loss: LossName | None = Field(None, description="the usual loss of the task if not given")
    metric: MetricName | None = Field(None, description="the usual metric of the task if not given")
    metrics: list[MetricName] = Field(default_factory=list, description="further metrics, computed for all splits at the end")
    class_balance: bool = Field(False, description="weight labels so that the classes of a target count equally")
    task_weights: list[Annotated[float, Field(ge=0, lt=1e9)]] | None = Field(
        None, description="how much each target counts in the loss"
    )
    report: Literal["best", "last"] = Field("best", description="weights of the best validation epoch, or of the last one")
    scale_targets: bool = Field(False, description="learn targets with mean 0 and deviation 1 over the training graphs")
    optimiser: OptimiserConfig = OptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    stop_lr: Annotated[float, Field(ge=0)] = Field(0.0, description="stop when the learning rate is at or below this")
    patience: Positive | None = Field(None, description="stop after this many epochs without a better validation metric")
    clip: Annotated[float, Field(ge=0)] = Field(0.0, description="largest norm of the gradient; 0 for no clipping")
    average: Annotated[float, Field(ge=0, lt=1e6)] = Field(
        0.0, description="validate and keep weights that are averaged over about this many epochs; 0 for the weights themselves"
    )
    accumulate: Positive = Field(1, description="number of batches whose gradients are accumulated for one step")
    precision: Literal["32-true", "32-ieee", "64-true", "bf16-mixed"] = Field(
        "32-true",
        description="number format; on GPUs 32-true computes products in TF32, and 32-ieee in full float32; on a CPU 32-ieee keeps PyTorch's default library for products",
    )
    eager: bool = Field(False, description="use plain operations: no fused kernels, and no data set on the device")
    max_pairs: Positive | None = Field(None, description="split batches with more pairs (subgraph, node) than this")
    checkpoint_seconds: Annotated[float, Field(ge=0)] = Field(
        5.0, description="least number of seconds between two checkpoints; 0 for one after each epoch"
    )
    target_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of the targets, drawn at random in every step, that the step learns from"
    )
    checkpoint: str | None = Field(
        None, description="where to start from: a run, an encoder made by reign pretrain, or the name of one that comes with reign"
    )
    freeze_encoder: bool = Field(False, description="with a checkpoint: train only the head")
    freeze_epochs: Positive | None = Field(
        None, description="with a checkpoint: train only the head for this many epochs, then all weights, with unfrozen_lr"
    )
    unfrozen_lr: Annotated[float, Field(gt=0, le=1)] = Field(
        0.1, description="with freeze_epochs: the rate at which all weights are trained, as a share of optimiser.lr"
    )
    tensorboard: bool = False

    @model_validator(mode="after")
    def _check(self) -> "TrainingConfig":
        if self.freeze_epochs is not None:
            if self.freeze_encoder:
                raise ValueError(
                    "freeze_encoder trains only the head in all epochs, and freeze_epochs in the first ones; set one of them"
                )
            if self.freeze_epochs >= self.epochs:
                raise ValueError(
                    f"freeze_epochs is {self.freeze_epochs} and epochs is {self.epochs}, expected fewer, so that all weights are trained, too; "
                    "freeze_encoder trains only the head"
                )
        return self

    @property
    def frozen_epochs(self) -> int:
        """The number of epochs in which only the head is trained."""
        return self.epochs if self.freeze_encoder else self.freeze_epochs or 0


# -- A recipe: all settings of one run. Error messages name the field --------------------------------------------------


Partner = Literal["forest", "gp"]  # what can predict together with the models
PARTNERS: dict[Partner, str] = {"forest": "the forest", "gp": "the Gaussian process"}


class Recipe(Settings):
    """The settings of one run: data, model, training, and one or several seeds."""

    data: DataConfig
    model: ModelConfig = ModelConfig()
    train: TrainingConfig = TrainingConfig()
    seeds: list[Seed] = Field([0], min_length=1)
    folds: Annotated[int, Field(ge=2)] | None = Field(
        None, description="number of cross-validation folds; the reported epoch has the best mean over folds"
    )
    baseline: Literal["auto", "none"] = Field(
        "auto",
        description="auto: fit a forest to a table of molecules of at most 20,000 rows, too, for comparison, and a Gaussian process for numbers; none: do not",
    )
    ensemble_with: list[Partner] = Field([], description="forest, gp: predict with the forest, and with the Gaussian process, too")
    format: int = Field(FORMAT, description="1: defaults of models are those of runs without a format; see reign.nn")

    @field_validator("ensemble_with", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [] if value is None else [value] if isinstance(value, str) else value

    @field_validator("ensemble_with")
    @classmethod
    def _in_order(cls, value: list[Partner]) -> list[Partner]:
        if len(set(value)) != len(value):
            raise ValueError(f"ensemble_with is {value}, expected each name once")
        return [name for name in PARTNERS if name in value]

    @model_validator(mode="before")
    @classmethod
    def _todays(cls, values: Any) -> Any:
        return cls.todays(values)

    @staticmethod
    def todays(values: Any) -> Any:
        """Plain values with the defaults of an earlier format spelled out."""
        if not isinstance(values, dict) or "format" not in values:
            return values
        model, format = values.get("model"), read_format(values["format"], "the recipe")
        if isinstance(model, dict) and isinstance(name := model.get("name"), str) and name in MODELS:
            values = {**values, "model": todays_options(MODELS[name], model, format)}
        return {**values, "format": FORMAT}

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds are {self.seeds}, expected distinct numbers")
        if self.folds is not None and (fixed := self.data.fixed_split) not in (None, "splits_column"):
            raise ValueError(f"folds are drawn at random, but data.{fixed} gives the splits; leave one of them out")
        if self.ensemble_with and (not self.data.reads_smiles or self.baseline == "none"):
            why = "the baseline is none" if self.data.reads_smiles else f"data.name is '{self.data.name}'"
            raise ValueError(f"ensemble_with is {self.ensemble_with}, which are baselines of a table of molecules, but {why}")
        return self

    def save(self, file: Path) -> None:
        """Write as YAML."""
        write_text(file, yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))

    @classmethod
    def load(cls, file: Path) -> "Recipe":
        """Read what ``save`` wrote. Runs of versions without ``data.stereo`` have OGB's feature of chirality, and those without a format
        the defaults of models of that time."""
        values = {"format": 1, **read_yaml(file)}
        data = values.get("data")
        if isinstance(data, dict) and data.get("name", "csv") == "csv":
            values = {**values, "data": {"stereo": "ogb", **data}}
        return cls.check(values, str(file))
