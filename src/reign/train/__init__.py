"""Training: recipes, the training loop, and runs on disk. It needs ``pip install 'reign[train]'``."""

from reign.train.callbacks import Callback
from reign.train.config import TrainingConfig as Training
from reign.train.loop import fit
from reign.train.nodes import fit_nodes
from reign.train.predictor import Predictor, load
from reign.train.recipe import Recipe
from reign.train.run import train

__all__ = ["Callback", "Predictor", "Recipe", "Training", "fit", "fit_nodes", "load", "train"]
