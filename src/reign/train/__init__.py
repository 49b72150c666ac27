"""Training: one loop, recipes, runs on disk. Needs ``pip install 'reign[train]'``."""

from reign.train.callbacks import Watch
from reign.train.config import Recipe, Training
from reign.train.loop import fit
from reign.train.predictor import Predictor, load
from reign.train.run import train

__all__ = ["Predictor", "Recipe", "Training", "Watch", "fit", "load", "train"]
