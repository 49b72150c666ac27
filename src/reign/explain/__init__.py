"""Explain predictions: which nodes, edges and subgraphs matter, by integrated gradients over x[k, i] and by leaving subgraphs out."""

from reign.explain._attribution import Attribution, attribute, deletion, without_nodes
from reign.explain._runs import Explanation, explain

__all__ = ["Attribution", "Explanation", "attribute", "deletion", "explain", "without_nodes"]
