"""Explain predictions: which nodes, edges and subgraphs matter, by integrated gradients over x[k, i] and by leaving subgraphs out."""

import reign._pyg  # noqa: F401
from reign.explain._attribution import Attribution, Explanation, attribute, deletion, explain, without_nodes

__all__ = ["Attribution", "Explanation", "attribute", "deletion", "explain", "without_nodes"]
