"""Encoders: models that learned descriptors of many molecules, and whose weights others start from. ``reign pretrain`` makes them, and some come with reign.

The folder of an encoder holds a saved model, as written by ``save_pretrained``, and ``card.json``: what it learned from, licences, figures, and the checksums
of its weights and settings. Matrices are stored as float16, and all other weights as float32.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from reign.data import Problem
from reign.disk import read_record, read_tensors, write_json, write_tensors
from reign.nn import OGB_ATOM, OGB_BOND, Model
from reign.train.settings.config import Stereo
from reign.train.settings.yaml import RawSettings

SHIPPED = Path(__file__).parents[1] / "encoders"
CHECKSUMS = {"sha256": "model.safetensors", "config_sha256": "config.json"}  # on the card, with their files
FLOATS, COUNTS = (torch.float16, torch.bfloat16, torch.float32, torch.float64), (torch.int32, torch.int64)
# arguments of a model that follow from the data
OF_DATA = ("in_channels", "out_channels", "node_encoder", "edge_encoder", "edge_dim")


def checksum(file: Path) -> str:
    """The checksum of a file; "missing" if there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "missing"


def list_encoders() -> list[str]:
    """The names of the encoders that come with reign."""
    return sorted(file.parent.name for file in SHIPPED.glob("*/card.json"))


@dataclass(frozen=True)
class Encoder:
    """An encoder on disk.

    Args:
        folder: its folder.
        card: the contents of ``card.json``.
    """

    folder: Path
    card: dict[str, Any]

    @classmethod
    def find(cls, name: str | Path) -> "Encoder | None":
        """The encoder of this name that comes with reign, or the one in this folder; None if this is neither."""
        folder = SHIPPED / name if str(name) in list_encoders() else Path(name)
        if not (folder / "card.json").is_file():
            return None
        card = read_record(folder / "card.json", stereo=str, **dict.fromkeys(CHECKSUMS, str))
        for key, part in CHECKSUMS.items():
            file, said = folder / part, card[key]
            if (found := checksum(file)) != said:
                raise ValueError(
                    f"{file} has the checksum {found:.16}, expected {said:.16}, as its card says; it is damaged or was changed, so get it again."
                )
        if card["stereo"] not in (known := get_args(Stereo)):
            raise ValueError(
                f"{folder / 'card.json'} is damaged (stereo is {card['stereo']!r:.40}, expected one of {', '.join(known)})."
            )
        return cls(folder, card)

    def weights(self) -> dict[str, Tensor]:
        """The weights, as float32. Only counters are integers, and no variance is negative."""
        found, file = Model.from_pretrained(self.folder).float().state_dict(), self.folder / "model.safetensors"
        for name, value in read_tensors(file)[0].items():
            if value.dtype not in (FLOATS if found[name].is_floating_point() else COUNTS):
                raise ValueError(f"{file} is damaged ({name} has the type {value.dtype}).")
            if name.endswith("running_var") and not bool((value >= 0).all()):
                raise ValueError(f"{file} is damaged ({name} has a negative variance, or NaN).")
        return found

    def model_settings(self) -> RawSettings:
        """The settings of a model that can start from these weights."""
        saved = read_record(self.folder / "config.json", model=str, arguments=dict)
        return {
            "name": saved["model"].lower(),
            **{name: value for name, value in saved["arguments"].items() if name not in OF_DATA},
        }


def write_encoder(model: Model, problem: Problem, folder: Path, card: Mapping[str, object]) -> Encoder:
    """Write a trained model as an encoder. Types that no training molecule has get zeros in place of their random vectors.

    Args:
        model: the model.
        problem: what it learned from.
        folder: the folder of the encoder.
        card: what its card says besides the checksums.
    """
    unseen = forget_unseen_types(model, problem)
    model.save_pretrained(folder)
    weights = folder / "model.safetensors"
    short = {
        name: value.half() if value.is_floating_point() and value.dim() > 1 else value for name, value in model.state_dict().items()
    }
    if wrong := [name for name, value in short.items() if value.is_floating_point() and not bool(value.isfinite().all())]:
        raise ValueError(f"the weight {wrong[0]} is NaN or too large for float16; train with a lower train.optimiser.lr.")
    write_tensors(weights, short)
    found = {**card, "types_without_weights": unseen, **{key: checksum(folder / name) for key, name in CHECKSUMS.items()}}
    write_json(folder / "card.json", found)
    return Encoder(folder, found)


@torch.no_grad()
def forget_unseen_types(model: Model, problem: Problem) -> dict[str, int]:
    """Set the vectors of types that no training molecule has to zero. Return their numbers."""
    graphs, found = problem.graphs.select(problem.splits["train"]), {"atoms": 0, "bonds": 0}
    assert graphs.edge_attr is not None
    for module in model.modules():
        for kind, sizes, values in (("atoms", OGB_ATOM, graphs.x), ("bonds", OGB_BOND, graphs.edge_attr)):
            if getattr(module, "sizes", None) == sizes:  # an embedding of these types
                unseen = [torch.bincount(values[:, c], minlength=size) == 0 for c, size in enumerate(sizes)]
                for table, rows in zip(module.columns, unseen, strict=True):  # type: ignore[arg-type]
                    table.weight[rows.to(table.weight.device)] = 0
                found[kind] = sum(int(rows.sum()) for rows in unseen)
    return found
