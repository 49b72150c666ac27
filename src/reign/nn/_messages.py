"""The messages of GIN in the form that kernels take: along which edges, and with which edge features."""

from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reign.bags import narrow_edges
from reign.kernels import Edges, blocked, kernels_for
from reign.nn._edge_encoders import different_rows, encode_edges
from reign.nn._encoders import TypeEmbedding
from reign.nn._neighbourhood import MERGED, EdgeAttr, Neighbourhood
from reign.nn._state import State

if TYPE_CHECKING:
    from reign.nn._base_encoders import GIN


def messages_of(encoder: "GIN", edges: Edges, near: Neighbourhood, kernels: ModuleType) -> Any:
    """The messages of an encoder with edge features: the table of vectors if there are few types, otherwise one vector per edge."""
    types, attr, state = encoder.edge_encoder, near.edge_attr, near.state
    if types is None:
        return kernels.Messages(edges, None, encoder.eps)
    if isinstance(types, TypeEmbedding) and len(types.columns) == 1 and (kind := types_of_edges(state, attr)) is not None:
        weight = types.columns[0].weight
        assert isinstance(weight, Tensor)
        if weight.size(0) <= kernels.FEW_TYPES:
            return kernels.Messages(_with_kinds(state, edges, kind), weight, encoder.eps)
    if kernels is blocked and isinstance(types, TypeEmbedding) and attr is not None:
        rows, kind, _ = state.once_for_all(("kinds of edges", str(id(attr))), lambda: (*different_rows(attr), attr))
        if rows.size(0) <= kernels.FEW_TYPES:
            hot = state.once_for_all(("types of kinds", str(types.sizes), str(id(attr))), lambda: types.many_hot(rows))
            return kernels.Messages(_with_kinds(state, edges, kind), types.of_many_hot(hot), encoder.eps)
    table = encode_edges(types, attr)
    return kernels.Messages(edges, table.expand(-1, encoder.mlp.lin1.in_features).contiguous(), encoder.eps)


def _with_kinds(state: State, edges: Edges, kind: Int[Tensor, "edges"]) -> Edges:
    """Messages whose edges have types; the same object for all layers, with which kernels keep what follows from it."""
    return state.once_for_all(("edges with types", str(id(edges)), str(id(kind))), lambda: replace(edges, kind=kind))


def types_of_edges(state: State, attr: EdgeAttr) -> Int[Tensor, "edges"] | None:
    """Edge features as 32-bit integers if they are types, otherwise None. They are kept with the features, so that no others have the same id."""
    if attr is None or attr.is_floating_point() or attr.numel() != attr.size(0):
        return None
    return state.once_for_all(("types of edges", str(id(attr))), lambda: (attr.reshape(-1).to(torch.int32), attr))[0]


def collect_in_kernels(encoder: "GIN", n: Neighbourhood) -> Float[Tensor, "rows channels"] | None:
    """The values plus the sum of their messages, in one pass over them; None where plain operations have to do it.

    If messages from roots have their own weights, the two sums are mixed between.
    """
    _, names, neighbours = MERGED[n.merged]
    source, bag, kernels = n.source, n.state.bag, kernels_for(n.source)
    if kernels is None or neighbours is None or n.averaged or bag.edge_weight is not None or source.size(0) == 0:
        return None
    if len(names) == 1:
        messages = messages_of(encoder, narrow_edges(bag, neighbours, n.where), n, kernels)
        return kernels.pass_messages(n.own, source, [messages])[0]
    parts = [narrow_edges(bag, neighbours, n.where, sources) for sources in ("others", "roots")]
    sums = [kernels.pass_messages(None, source, [messages_of(encoder, edges, n, kernels)])[0] for edges in parts]
    return kernels.own_and_sum(n.own, encoder.gather(sums), encoder.eps)
