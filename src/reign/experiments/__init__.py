"""The paper's experiments: its tables as recipes, their reproduction, and the search of settings."""

from reign.experiments.tables import find_recipe, list_tables

__all__ = ["find_recipe", "list_tables"]
