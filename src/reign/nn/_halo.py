"""How far a prediction for a node reaches: which other subgraphs it depends on."""

from typing import TYPE_CHECKING, cast

from torch import nn

from reign.nn._conv import SubgraphConv
from reign.nn._convs import GCN, GIN, GraphConv
from reign.nn._outer_mpnn import OuterMPNN
from reign.nn._pooling import Pooling, RootPooling
from reign.nn._slots import EncoderSlot
from reign.nn._terms import Term
from reign.policies import Whole

if TYPE_CHECKING:
    from reign.nn._model import Model


def halo_of(model: "Model") -> int | None:
    """See ``Model.halo``."""
    terms, pooling, policy = _terms(model), model.pooling, model.policy
    if terms is None or model.encodings is not None or model.virtual_node is not None:
        return None
    if isinstance(policy, Whole):
        return _hops(model.layers) if {term.name for term in terms} <= {"own", "local"} else None
    if not all(term.stays_inside for term in terms) or model.domain != "members" or policy.radius is None or not policy.node_based:
        return None
    if isinstance(pooling, RootPooling):
        return 0
    if isinstance(pooling, OuterMPNN):
        known = _hops(pooling.layers) is not None  # also degrees, because ego nets have a radius of at least 1
        return len(pooling.layers) if known else None
    return policy.radius if type(pooling).nodes is Pooling.nodes else None


def needs_every_root(model: "Model") -> bool:
    """See ``Model.needs_every_root``."""
    terms = _terms(model)
    return model.halo is None and (model.needs_node_based or terms is None or any(term.node_based for term in terms))


def _terms(model: "Model") -> list[Term] | None:
    """All terms of all layers, or None if some layers are not made of terms."""
    layers = [layer for layer in model.layers if isinstance(layer, SubgraphConv) and type(layer).update is SubgraphConv.update]
    if len(layers) < len(model.layers):
        return None
    return [term for layer in layers for on in (False, True) for slot in layer.slots(on) for term in slot.terms]


def _hops(layers: nn.ModuleList) -> int | None:
    """The number of hops that messages on the graph itself go: one with each layer, and one more if degrees of neighbours are needed.

    None if a convolution of PyG is among them, which may pass messages further in one layer.
    """
    encoders = [slot.encoder for layer in layers for slot in cast(SubgraphConv, layer).slots() if isinstance(slot, EncoderSlot)]
    if not all(isinstance(encoder, GIN | GraphConv | GCN) for encoder in encoders):
        return None
    return len(layers) + any(isinstance(encoder, GCN) for encoder in encoders)
