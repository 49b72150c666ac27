"""The paper's "implements" theorems as functions: one architecture, with constructed weights, computes the same as another.

``implement(model, "reign2")``, ``implement(model, "sun")``, ``implement(model, "sun:null")`` and ``implement(model, "ign3")`` return a model of
the target kind whose outputs equal those of the given model. Where the construction printed in the paper does not satisfy the formulas, a corrected one is used
(docs/theory.md lists the corrections).
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch_geometric.data import Data

import reign.policies as policies
from reign.nn import Model, ReIGN2
from reign.theory._ign3_model import IGN3Model
from reign.theory._linear_layers import to_null, to_reign2, to_sun


def implement(model: Model, target: str, graphs: Sequence[Data] | None = None) -> nn.Module:
    """Make a model of the target kind that computes the same as the given model.

    Args:
        model: DS, DSS, GNNAK, GNNAKctx, IDGNN, NGNN, SUN or ReIGN2 with ``conv="graphconv"``, linear terms, sums, ReLU and no norm.
        target: "reign2", "sun" or "ign3"; or "sun:null", SUN with the null policy in place of node marking or deletion.
        graphs: needed for "ign3": graphs on which the two models are equal. Their sizes and features bound the gates.

    Returns:
        For "ign3" an ``IGN3Model``, called in the same way on these graphs; for other targets a model that is called like any other.
    """
    if target not in ("reign2", "sun", "sun:null", "ign3"):
        raise ValueError(f"target is {target!r}, expected 'reign2', 'sun', 'sun:null' or 'ign3'.")
    if not model.linear_form or model.residual is not None or model.jk not in (None, "last"):
        kind = type(model).__name__
        raise ValueError(
            f"no construction is known for {kind}{'' if model.residual is None else ' with residual connections'} in {target}: the paper's "
            f"results cover DS-GNN, DSS-GNN, GNN-AK(-ctx), ID-GNN, NGNN, SUN and ReIGN(2), but not {kind} in {target}."
        )
    if target.startswith("sun") and isinstance(model, ReIGN2):
        raise ValueError(
            "SUN cannot implement ReIGN2: with node marking, ReIGN(2) tells graphs apart that no SUN does, such as the pair CFI(ladder 4) of "
            "family('cfi')."
        )
    if target in ("sun:null", "ign3"):
        for part in ("labels", "encodings", "virtual_node"):
            if getattr(model, part) is not None:
                raise ValueError(f"no construction in {target} is known for {part}; make the model without it.")
    if target == "ign3":
        if not graphs:
            raise ValueError(
                "implement(model, 'ign3') needs graphs, because the gates of the construction are exact only up to given sizes and features."
            )
        return IGN3Model(model, graphs)
    rewrite = to_reign2 if target == "reign2" else to_sun
    other = copy.deepcopy(model).double().eval()
    layers = [new for layer in other.layers for new in rewrite(layer)]
    if target == "sun:null":
        layers = to_null(layers, other.policy, other.domain)
        other.policy = policies.policy("null")
    other.layers = nn.ModuleList(layers).eval()
    other.num_layers = len(other.layers)
    other._config = {}  # its arguments do not describe its weights
    return other


def linear_options(model: type[Model]) -> Mapping[str, Any]:
    """The options of a model that the constructions cover: GraphConv, linear terms, sums over all nodes, ReLU, no norm."""
    return dict(model.linear_form)
