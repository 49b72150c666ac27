"""Fine-tuning: a model starts from the weights of a finished run, with a new last layer for new targets."""

from pathlib import Path
from typing import Any

from torch import nn

from reign.data import Problem
from reign.nn import Model
from reign.train.run_folder import read_about
from reign.train.settings.config import Recipe, TrainingConfig
from reign.train.summary import read_summary


def start_from(model: Model, config: TrainingConfig, problem: Problem, seed: int) -> bool:
    """Load the weights of the run in ``train.checkpoint`` into a model, if one is given. Return whether the last layer was loaded, too.

    A run can have several models: seed s starts from model s, modulo their number. If the targets or classes differ, the last layer keeps its
    random weights. With ``train.freeze_encoder`` only the head is trained.
    """
    if config.freeze_encoder:
        freeze_encoder(model, config)
    if config.checkpoint is None:
        return True
    folder = Path(config.checkpoint)
    about, summary = read_about(folder), read_summary(folder)
    members = summary["members"]
    known = Model.from_pretrained(folder / members[seed % len(members)]["folder"] / summary["report"])
    same = [about["task"], about["targets"], about["classes"]] == [problem.task, problem.targets, problem.classes]
    weights, own = known.state_dict(), model.state_dict()
    last = f"head.lin{getattr(model.head, 'depth', 0)}."
    same = same and all(own[name].shape == weights[name].shape for name in own if name.startswith(last) and name in weights)
    if not same:
        weights = {name: own.get(name, value) if name.startswith(last) else value for name, value in weights.items()}
    wrong = [
        name for name in {**own, **weights} if name not in own or name not in weights or own[name].shape != weights[name].shape
    ]
    if wrong:
        raise ValueError(
            f"the weights of {folder} do not fit this model ({wrong[0]} differs); leave out --model, --policy and settings of the model, so that "
            "the settings of that run are used."
        )
    model.load_state_dict(weights)
    return same


def check_stereo(recipe: Recipe) -> None:
    """Raise ``ValueError`` if a recipe starts from a run that sees chirality in another way, so that its weights for it mean something else."""
    assert recipe.train.checkpoint is not None
    here, there = recipe.data.stereo, stereo_of(Path(recipe.train.checkpoint)).get("stereo", recipe.data.stereo)
    if recipe.data.name == "csv" and "none" not in (here, there) and here != there:
        raise ValueError(
            f"data.stereo is {here!r}, but the run {recipe.train.checkpoint}, whose weights are to be used, has the feature of chirality {there!r}; use it "
            f"here too, with --set data.stereo={there}, or neither, with --ignore-stereo."
        )


def freeze_encoder(model: nn.Module, config: TrainingConfig) -> None:
    """Train only the head."""
    if config.checkpoint is None:
        raise ValueError("--freeze-encoder needs a run with a trained encoder; give it with --checkpoint.")
    if not isinstance(getattr(model, "head", None), nn.Module):
        raise ValueError(f"--freeze-encoder trains only the head, but {type(model).__name__} has none.")
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith("head."))


def hold_encoder(model: nn.Module) -> None:
    """Put everything except the head into evaluation mode, so that norms keep their statistics and there is no dropout."""
    for name, part in model.named_children():
        if name != "head":
            part.eval()


def stereo_of(folder: Path) -> dict[str, Any]:
    """The setting ``data.stereo`` that gives tables the feature of chirality of a finished run; empty if the run is not on molecules."""
    read_about(folder)
    data = Recipe.load(folder / "recipe.yaml").data
    return {"stereo": data.stereo_of_graphs} if data.reads_smiles else {}


def model_of(folder: Path) -> dict[str, Any]:
    """The settings of the model of a finished run."""
    read_about(folder)
    return Recipe.load(folder / "recipe.yaml").model.model_dump(mode="json")
