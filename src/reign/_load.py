"""``reign.load``: load a run in Python. The packages for training are imported only when it is called."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reign.train.predictor import Predictor


def load(*folders: str | Path, device: Any = "cpu", best: bool = False) -> "Predictor":
    """Load a finished run, or several runs as one ensemble: ``reign.load("run").predict(["CCO", "c1ccccc1"])``."""
    from reign.train.predictor import load as read

    return read(*folders, device=device, best=best)
