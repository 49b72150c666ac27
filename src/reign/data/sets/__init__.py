"""The named data sets."""

from reign.data.sets._counting import Counting
from reign.data.sets._expressive import CSL, EXP, SR, exp_graphs
from reign.data.sets._molhiv import MolHIV
from reign.data.sets._properties import GraphProperties
from reign.data.sets._tu import TU
from reign.data.sets._zinc import ZINC

__all__ = ["CSL", "EXP", "SR", "TU", "ZINC", "Counting", "GraphProperties", "MolHIV", "exp_graphs"]
