"""Recipes: the tables of the paper as YAML files, and the defaults for molecules."""
