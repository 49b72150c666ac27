"""How the documentation is made: formulas, pages from docstrings, and the check of links."""
