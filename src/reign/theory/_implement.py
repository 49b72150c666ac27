"""The paper's "implements" theorems as functions: one architecture with constructed weights that computes what another computes.

``implement(model, "reign2")``, ``implement(model, "sun")`` and ``implement(model, "ign3")`` return a model of the target kind whose
outputs equal those of the given one. The formulas are the judge: where a printed construction slips, the corrected one is built
(docs/theory.md lists them).
"""

import copy
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch_geometric.data import Data

from reign.nn import Model, ReIGN2
from reign.theory._ign3_model import IGN3Model
from reign.theory._to_reign2 import to_reign2
from reign.theory._to_sun import to_sun


def implement(model: Model, target: str, graphs: Sequence[Data] | None = None) -> nn.Module:
    """A stack of the target kind that computes what a model computes.

    Args:
        model: DS, DSS, GNNAK, GNNAKctx, IDGNN, NGNN, SUN or ReIGN2 with ``conv="graphconv"``, linear terms, sums, ReLU and no norm.
        target: "reign2", "sun" or "ign3".
        graphs: for "ign3": the graphs on which the two are to be equal; the bound of the gates comes from them.

    Returns:
        For "reign2" and "sun" a model that is called as any other; for "ign3" an ``IGN3Model``, called the same way on these graphs.
    """
    if target not in ("reign2", "sun", "ign3"):
        raise ValueError(f"target is {target!r}, expected 'reign2', 'sun' or 'ign3'.")
    if not model.linear_form or model.residual is not None or model.jk not in (None, "last"):
        kind = type(model).__name__
        raise ValueError(
            f"no construction is known for {kind}{'' if model.residual is None else ' with residual connections'} in {target}: the paper's "
            f"results cover DS-, DSS-GNN, GNN-AK(-ctx), ID-GNN, NGNN, SUN and ReIGN(2); one that {target} implements {kind} would be needed."
        )
    if target == "sun" and isinstance(model, ReIGN2):
        raise ValueError(
            "ReIGN2 cannot be put into sun: with node marking ReIGN(2) tells graphs apart that no SUN does, as the pair CFI(ladder 4) of "
            "family('cfi')."
        )
    if target == "ign3":
        if not graphs:
            raise ValueError("implement(model, 'ign3') needs graphs: the gates of the construction are exact on given graphs only.")
        return IGN3Model(model, graphs)
    rewrite = to_reign2 if target == "reign2" else to_sun
    made = copy.deepcopy(model).double().eval()
    made.layers = nn.ModuleList([new for layer in made.layers for new in rewrite(layer)]).eval()
    made.num_layers = len(made.layers)
    made._config = {}  # its weights are not those of its arguments
    return made


def linear_options(model: type[Model]) -> dict[str, Any]:
    """The options that make a model one the constructions speak of: GraphConv, linear terms, sums, ReLU, no norm, all nodes."""
    return dict(model.linear_form)
