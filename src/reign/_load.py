"""``reign.load``: the way from a run back to Python, without the packages for training until it is called."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reign.train.predictor import Predictor


def load(*folders: str | Path, device: Any = "cpu") -> "Predictor":
    """A run that was trained, or several as one ensemble: ``reign.load("run").predict(["CCO", "c1ccccc1"])``."""
    from reign.train.predictor import load as read

    return read(*folders, device=device)
