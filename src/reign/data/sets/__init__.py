"""The named data sets. Each is registered in ``DATASETS`` when it is imported here."""

# isort: off
# data sets are listed in the order of these imports: those of the paper's main tables first
from reign.data.sets._molecules import ZINC
from reign.data.sets._molecules import MolHIV
from reign.data.sets._tu import TU
from reign.data.sets._activity import MoleculeACE
from reign.data.sets._expressive import CSL, EXP, SR, exp_graphs
from reign.data.sets._expressive import Counting
from reign.data.sets._properties import GraphProperties

# isort: on

__all__ = ["CSL", "EXP", "SR", "TU", "ZINC", "Counting", "GraphProperties", "MolHIV", "MoleculeACE", "exp_graphs"]
