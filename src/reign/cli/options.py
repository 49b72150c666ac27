"""Options that several commands share, and the groups in which ``--help`` shows options."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from reign.train.engine.callbacks import Callback
    from reign.train.settings.yaml import RawSettings

data_option = partial(typer.Option, rich_help_panel="Data")
split_option = partial(typer.Option, rich_help_panel="Splits")
rows_option = partial(typer.Option, rich_help_panel="Rows, descriptors, metrics")
unsure_option = partial(typer.Option, rich_help_panel="Uncertainty")
model_option = partial(typer.Option, rich_help_panel="Model")
start_option = partial(typer.Option, rich_help_panel="Weights to start from")
training_option = partial(typer.Option, rich_help_panel="Training")
output_option = partial(typer.Option, rich_help_panel="Output")
machine_option = partial(typer.Option, rich_help_panel="Machine")

TrainingTable = Annotated[Path | None, data_option("-i", "--data-path", help="A CSV of molecules to learn from.")]
SmilesColumns = Annotated[
    list[str] | None, data_option("-s", "--smiles-columns", help="Columns of SMILES that form one graph; or smiles.")
]
SmilesColumnsAsTrained = Annotated[
    list[str] | None, data_option("-s", "--smiles-columns", help="Column of SMILES; as in training if not given.")
]
TargetColumns = Annotated[list[str] | None, data_option(help="Columns to predict; if not given, those of numbers.")]
TaskType = Annotated[str | None, data_option("-t", "--task-type", help="Task: regression, classification (0 or 1) or multiclass.")]
IgnoreColumns = Annotated[list[str] | None, data_option(help="Columns that are no targets, without --target-columns.")]
SplitType = Annotated[str | None, split_option(help="random, scaffold_balanced, butina, kmeans, kennard_stone.")]
SplitSizes = Annotated[list[float] | None, split_option(help="Shares of train, val and test, such as 0.8 0.1 0.1.")]
SplitsColumn = Annotated[str | None, split_option(help="Column with the split of each row: train, val or test.")]
SplitsFile = Annotated[Path | None, split_option(help="JSON with the rows of train, val and test, counted from 0.")]
GroupColumn = Annotated[str | None, split_option(help="Column of groups; rows of one group stay together.")]
TimeColumn = Annotated[str | None, split_option(help="Column of dates or numbers; the newest rows are the test.")]
SplitSeed = Annotated[int | None, split_option(help="Seed for splitting the rows.")]
Settings = Annotated[
    list[str] | None, training_option("--set", metavar="KEY=VALUE", help="Change any setting, such as train.optimiser.lr=0.01.")
]
Accelerator = Annotated[str, machine_option(help="auto (a GPU if there is one), cpu or gpu.")]
Devices = Annotated[int, machine_option(help="Number of processes here (or use torchrun).")]
Nodes = Annotated[int, machine_option(help="Number of machines.")]
Quiet = Annotated[bool, output_option("-q", "--quiet", help="Do not show progress; warnings are still shown.")]
WithReport = Annotated[
    bool,
    output_option(
        "--report/--no-report",
        envvar="REIGN_REPORT",
        show_envvar=False,
        show_default=False,
        help="Write report.html; REIGN_REPORT=0 turns it off.",
    ),
]
Jobs = Annotated[int | None, machine_option("-j", "--jobs", help="Number of models at once; on a GPU if not given, all that fit.")]


def progress_unless(quiet: bool) -> "AbstractContextManager[Callback]":
    """A callback that shows progress, or only warnings."""
    from reign.cli.progress import showing_progress

    return showing_progress(not quiet)


SETTINGS = {  # the settings that options give, by their names as arguments
    "data_path": "data.path",
    "task_type": "data.task",
    "split_type": "data.split",
    "model": "model.name",
    "policy": "model.policy",
    "dropout": "model.dropout",
    "loss_function": "train.loss",
    "minutes": "train.schedule.minutes",
    "ensemble_with": "ensemble_with",
}
OF_DATA = """smiles_columns target_columns split_sizes splits_column splits_file group_column time_column ignore_columns split_seed
    weight_column descriptors_columns descriptors_path molecule_featurizers"""
OF_TRAINING = "epochs freeze_encoder freeze_epochs batch_size eager class_balance task_weights patience"
SETTINGS |= {name: f"data.{name}" for name in OF_DATA.split()} | {name: f"train.{name}" for name in OF_TRAINING.split()}
FLAGS = {"ignore_stereo": ("data.stereo", "none"), "no_baseline": ("baseline", "none"), "from_scratch": ("train.checkpoint", None)}


def settings_of(given: Mapping[str, Any]) -> "RawSettings":
    """The settings that the arguments of a command give. Paths become absolute; None, and a flag that is not set, give nothing."""
    from reign.train.settings.yaml import merge, nested

    values = {name: str(value.absolute()) if isinstance(value, Path) else value for name, value in given.items()}
    found = [
        nested(SETTINGS[name], values[name]) for name in SETTINGS if values.get(name) is not None and values[name] is not False
    ]
    return merge(*found, *(nested(*FLAGS[name]) for name in FLAGS if values.get(name)))


def recipe_for(settings: "RawSettings") -> str:
    """The recipe with the default settings for tables of molecules, by the task in the settings of the user, which starts from random weights."""
    from reign.experiments.pretrain import recipe_of_table
    from reign.train.settings.yaml import merge

    return recipe_of_table(merge(settings, {"train": {"checkpoint": None}}))[0]
