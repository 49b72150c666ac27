"""Train an encoder on the descriptors of many molecules (see ``reign.train.runs.encoders``), and choose whether a table starts from one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import yaml
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from reign.data import Problem
from reign.disk import write_text
from reign.nn import num_parameters
from reign.train import fit
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric
from reign.train.runs.build import make_model
from reign.train.runs.encoders import Encoder, list_encoders, write_encoder
from reign.train.settings.config import ModelConfig, Seed, Settings, TrainingConfig
from reign.train.settings.yaml import RawSettings, merge, read_yaml

DEFAULTS: RawSettings = {
    "model": {
        "name": "dss",
        "hidden_channels": 160,
        "num_layers": 5,
        "policy": "ego+:2",
        "domain": "members",
        "subgraphs": "sum",  # many descriptors grow with the number of atoms, which means do not show
        "residual": True,
        "head": {"hidden": [320], "norm": "batch_norm"},
    },
    "train": {
        "epochs": 100_000,  # the clock ends the training
        "batch_size": 512,
        "report": "last",
        "average": 1,
        "target_share": 0.5,
        "max_pairs": 10**9,
        "checkpoint_seconds": 30,
        "optimiser": {"name": "adamw", "lr": 0.001, "weight_decay": 0.01},
        "schedule": {"name": "clock", "minutes": 60},
    },
}


class PretrainConfig(Settings):
    """The settings of an encoder's training."""

    model: ModelConfig
    train: TrainingConfig
    val_share: Annotated[float, Field(gt=0, lt=1)] = 0.02
    seed: Seed = 0

    @classmethod
    def of(cls, *changes: RawSettings) -> "PretrainConfig":
        """The defaults with some changes."""
        return cls.check(merge(DEFAULTS, *changes), "the settings")


def pretrain(
    problem: Problem,
    config: PretrainConfig,
    folder: Path,
    about: Mapping[str, Any],
    fabric: Fabric,
    callback: Callback | None = None,
) -> Encoder:
    """Train an encoder, and write it to ``folder/encoder``. A training that was stopped continues from its checkpoint in the folder.

    Args:
        problem: the descriptors of a corpus, see ``Corpus.problem``.
        config: the settings.
        folder: the folder of the training.
        about: what the card says about the molecules.
        fabric: devices and processes.
        callback: receives progress events.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, values = folder / "pretrain.yaml", {**config.model_dump(mode="json"), "about": dict(about)}
    if file.is_file() and (before := {"about": values["about"], **read_yaml(file)}) != values:
        changed = ", ".join(key for key in {**before, **values} if before.get(key) != values.get(key))
        raise ValueError(
            f"{file} has other settings than these; choose a new folder with -o, or give the same as before ({changed} differs; about holds "
            "--data and --licence)."
        )
    write_text(file, yaml.safe_dump(values, sort_keys=False))
    model = make_model(config.model, problem, config.seed)
    result, predictions = fit(model, problem, config.train, seed=config.seed, folder=folder, fabric=fabric, callback=callback)
    scores = explained(problem.y[problem.splits["val"]], predictions["val"])
    best = sorted(
        ((score, name) for score, name in zip(scores.tolist(), problem.targets, strict=True) if score == score), reverse=True
    )
    card = {
        **about,
        "model": type(model).__name__,
        "parameters": num_parameters(model),
        "stereo": "parity",
        "molecules": {split: ids.numel() for split, ids in problem.splits.items()},
        "descriptors": problem.targets,
        "training": {**values["train"], "epochs": result["epochs"], "seconds": round(result["seconds"], 1)},
        "validation": {
            "r2_mean": float(scores.nanmean()),
            "r2_median": float(scores.nanmedian()),
            "r2": {name: round(score, 4) for score, name in best},
        },
    }
    return write_encoder(model.cpu(), problem, folder / "encoder", card)


def explained(
    y: Float[Tensor, "molecules descriptors"], out: Float[Tensor, "molecules descriptors"]
) -> Float[Tensor, "descriptors"]:
    """The share of the variance of each descriptor that the predictions explain; NaN for descriptors that hardly vary here."""
    known = ~y.isnan()
    count = known.sum(0).clamp(min=1)
    mean = torch.where(known, y, 0).sum(0) / count
    total = torch.where(known, (y - mean).square(), 0).sum(0)
    left = torch.where(known, (y - out.to(y)).square(), 0).sum(0)
    return torch.where(total > 1e-3 * count, 1 - left / total, torch.nan)  # relative to the variance over the training part


# -- where the training on a table starts ------------------------------------------------------------------------------------

PRETRAINED = "molecules-pretrained"  # the recipe that starts from an encoder
FREE = {"dropout"}  # settings of the model that do not change which weights it has


def recipe_of_table(changes: RawSettings) -> tuple[str, str]:
    """The recipe for a table of molecules with these changes of settings, and why it does not start from an encoder, where that is worth a note.

    >>> recipe_of_table({"data": {"task": "classification"}})
    ('molecules-classification', '')
    >>> recipe_of_table({"model": {"name": "gin"}})
    ('molecules', 'Training starts from random weights, because the settings of the model are not those of the encoder.')
    >>> recipe_of_table({"model": {"name": "gin"}, "train": {"checkpoint": None}})
    ('molecules', '')

    Args:
        changes: the settings that a user changes; ``train.checkpoint`` is None for random weights.
    """
    data, model, train = (dict(part) if isinstance(part := changes.get(name), dict) else {} for name in ("data", "model", "train"))
    if data.get("task", "regression") != "regression":
        return "molecules-classification", ""
    if not list_encoders():
        return "molecules", ""
    if "checkpoint" in train:
        return (PRETRAINED if train["checkpoint"] is not None and Encoder.find(train["checkpoint"]) else "molecules"), ""
    why = None
    if set(model) - FREE:
        why = "the settings of the model are not those of the encoder"
    elif isinstance(columns := data.get("smiles_columns"), list | tuple) and len(columns) > 1:  # others are refused with the recipe
        why = "there are several columns of SMILES"
    elif any(data.get(name) for name in ("descriptors_columns", "descriptors_path", "molecule_featurizers")):
        why = "the model gets descriptors, which the encoder does not know"
    elif data.get("stereo", "parity") != "parity":
        why = f"data.stereo is {data['stereo']}, and the encoder learned from molecules with parity"
    return (PRETRAINED, "") if why is None else ("molecules", f"Training starts from random weights, because {why}.")
