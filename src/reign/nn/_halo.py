"""How far a prediction for a node reaches: which other subgraphs it depends on."""

from typing import TYPE_CHECKING

from reign.nn._base_encoders import GIN, GraphConv
from reign.nn._conv import SubgraphConv
from reign.nn._outer_mpnn import OuterMPNN
from reign.nn._pooling import Pooling, RootPooling
from reign.nn._slots import EncoderSlot
from reign.nn._terms import TERMS, Term
from reign.policies import Whole

if TYPE_CHECKING:
    from reign.nn._model import Model


def halo_of(model: "Model") -> int | None:
    """See ``Model.halo``."""
    terms, pooling = _terms(model), model.pooling
    if (
        terms is None
        or not all(term.stays_inside for term in terms)
        or model.encodings is not None
        or model.virtual_node is not None
    ):
        return None
    if isinstance(model.policy, Whole):
        return _hops_of_messages(model)
    if model.domain != "members" or model.policy.radius is None or not model.policy.node_based:
        return None
    if isinstance(pooling, RootPooling):
        return 0
    if isinstance(pooling, OuterMPNN):
        return len(pooling.layers)
    return model.policy.radius if type(pooling).nodes is Pooling.nodes else None


def needs_every_root(model: "Model") -> bool:
    """See ``Model.needs_every_root``."""
    terms = _terms(model)
    return model.halo is None and (model.needs_node_based or terms is None or any(term.node_based for term in terms))


def _terms(model: "Model") -> list[Term] | None:
    """All terms of all layers, or None if some layers are not made of terms."""
    layers = [layer for layer in model.layers if isinstance(layer, SubgraphConv) and type(layer).update is SubgraphConv.update]
    if len(layers) < len(model.layers):
        return None
    names = [slot.name for layer in layers for on in (False, True) for slot in layer.slots(on)]
    return [TERMS[part] for name in names for part in name.split("+")]


def _hops_of_messages(model: "Model") -> int:
    """Messages on the graph itself go one hop further with each layer. Convolutions other than these may read degrees of neighbours."""
    layers = [layer for layer in model.layers if isinstance(layer, SubgraphConv)]
    encoders = [slot.encoder for layer in layers for slot in layer.slots() if isinstance(slot, EncoderSlot)]
    return len(layers) + (0 if all(isinstance(encoder, GIN | GraphConv) for encoder in encoders) else 1)
