"""Table files: the tables of the paper as YAML files, the base files that they extend, and the recipe for tables of molecules."""
