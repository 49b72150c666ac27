"""Training: recipes, the training loop, and runs on disk. It needs ``pip install 'reign[train]'``."""

import sys

import reign._pyg  # noqa: F401
from reign.train.engine import execution
from reign.train.engine.callbacks import Callback
from reign.train.engine.loop import fit
from reign.train.engine.nodes import fit_nodes
from reign.train.predict import output, predictor
from reign.train.predict.predictor import Predictor, load
from reign.train.runs.train import train
from reign.train.settings import config, losses, metrics, optim
from reign.train.settings.config import Recipe
from reign.train.settings.config import TrainingConfig as Training

__all__ = ["Callback", "Predictor", "Recipe", "Training", "fit", "fit_nodes", "load", "train"]

_FORMER = {  # modules by the names that documents and earlier programs use
    "config": config,
    "devices": execution,
    "formats": execution,
    "losses": losses,
    "metrics": metrics,
    "optimisers": optim,
    "predictor": predictor,
    "schedules": optim,
    "vectors": output,
}
globals().update(_FORMER)
sys.modules.update({f"{__name__}.{name}": module for name, module in _FORMER.items()})
