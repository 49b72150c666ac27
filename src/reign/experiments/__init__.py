"""The paper's experiments: its tables, the recipes of their cells, their reproduction, and the search for settings."""

import reign._pyg  # noqa: F401
from reign.experiments.paper import find_recipe, find_table, list_tables

__all__ = ["find_recipe", "find_table", "list_tables"]
