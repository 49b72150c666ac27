"""Pictures of molecules, and explanations of predictions for them. This needs ``pip install 'reign[plot,chem]'``."""

from reign.plots._explanation import (
    Explained,
    draw_pairs,
    draw_scores,
    explain_smiles,
    score_rows,
    smiles_of_file,
    write_explanations,
)
from reign.plots._molecule import Panel, draw_molecule_bag, draw_molecules

__all__ = [
    "Explained",
    "Panel",
    "draw_molecule_bag",
    "draw_molecules",
    "draw_pairs",
    "draw_scores",
    "explain_smiles",
    "score_rows",
    "smiles_of_file",
    "write_explanations",
]
