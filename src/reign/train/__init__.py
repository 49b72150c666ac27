"""Training: one loop, recipes, runs on disk. Needs ``pip install 'reign[train]'``."""

from reign.train.loop import fit
from reign.train.predictor import Predictor, load
from reign.train.recipe import Recipe, Training
from reign.train.run import train
from reign.train.tables import find_recipe, list_tables
from reign.train.watch import Watch

__all__ = ["Predictor", "Recipe", "Training", "Watch", "find_recipe", "fit", "list_tables", "load", "train"]
