"""Table files: the tables of the paper as YAML files, the bases that they extend, and the recipe for tables of molecules."""
