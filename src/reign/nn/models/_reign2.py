"""ReIGN(2), the layer space itself, and 2-IGN, which it extends (eq. 2IGN)."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from reign.bags import SubgraphBag
from reign.nn._conv import SubgraphConv, Transform
from reign.nn._encoders import EncoderSpec, make_encoder
from reign.nn._model import reject
from reign.nn._pooling import IGNPooling
from reign.nn._subgraph_gnn import SubgraphGNN
from reign.policies import Policy

# the 15 linear maps of 2-IGN: 10 off the diagonal, 5 on it
IGN2_OFF = [
    "own",
    "transpose",
    "non_roots",
    "needle_strict",
    "readout_strict",
    "node_readout_strict",
    "root_needle_strict",
    "root",
    "node_root",
    "roots",
]
IGN2_ON = ["own", "roots", "readout_strict", "needle_strict", "non_roots"]
# and their local forms, on the subgraph and on the graph
LOCAL_OFF = ["non_roots", "needle", "readout", "node_readout", "root_needle", "roots"]
LOCAL_ON = ["roots", "readout", "needle", "non_roots"]
REIGN2_OFF = IGN2_OFF + [f"{name}@{where}" for name in LOCAL_OFF for where in ("Ak", "A")]
REIGN2_ON = IGN2_ON + [f"{name}@{where}" for name in LOCAL_ON for where in ("Ak", "A")]


class ReIGN2Conv(SubgraphConv):
    """A ReIGN(2) layer: every entry of the paper's expansion table in its three forms, or a part of them.

    Args:
        in_channels: of the values that come in.
        out_channels: of the values that go out.
        terms: off the diagonal; all of the table if not given.
        root_terms: on the diagonal; all of the table if not given.
        transform: "linear", as in the paper, or "mlp".
        options: all others of ``SubgraphConv``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        terms: Sequence[str] = tuple(REIGN2_OFF),
        root_terms: Sequence[str] | None = tuple(REIGN2_ON),
        transform: Transform = "linear",
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, terms, root_terms, transform=transform, **options)


class ReIGN2(SubgraphGNN):
    """ReIGN(2): any part of the layer space, all of it by default.

    Args:
        in_channels: of node features, after ``node_encoder`` if there is one.
        hidden_channels: of the layers.
        num_layers: of them.
        out_channels: of the prediction; None gives the pooled vectors themselves.
        policy: any node-based policy.
        terms, root_terms, transform, aggregation: see ``ReIGN2Conv``.
        options: all others of ``SubgraphGNN``.
    """

    wl_bound = "3-WL (Corollary: 3-WL upper-bounds ReIGN(2))"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all"}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego+:3",
        terms: Sequence[str] = tuple(REIGN2_OFF),
        root_terms: Sequence[str] | None = tuple(REIGN2_ON),
        transform: Transform = "linear",
        **options: Any,
    ) -> None:
        shared = {name: options.pop(name) for name in ("aggregation",) if name in options}
        layer = partial(ReIGN2Conv, terms=terms, root_terms=root_terms, transform=transform, **shared)
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=layer, **options)


class TensorGNN(SubgraphGNN):
    """A model without a policy, which takes a graph as a tensor: x[i] on the diagonal, [A, edge features] off it.

    Args:
        in_channels: of node features, after ``node_encoder`` if there is one.
        hidden_channels: of the layers.
        num_layers: of them.
        out_channels: of the prediction; None gives the pooled vectors themselves.
        edge_dim: channels of edge features that are numbers.
        edge_encoder: of edge features that are types, to ``in_channels``; see ``make_encoder``.
        options: act, norm, and those of ``Model`` but the policy.
    """

    needs_node_based = True
    takes_policy = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        edge_dim: int | None = None,
        edge_encoder: EncoderSpec = None,
        **options: Any,
    ) -> None:
        reject(self, options, "policy", "conv", "expansion", "train_eps")
        self.edge_channels = (edge_dim or 0) if edge_encoder is None else in_channels
        options.setdefault("pooling", IGNPooling)
        options.setdefault("layer", self.layer_type)
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy="null", **options)
        self.edge_encoder = make_encoder(edge_encoder, None, in_channels)

    @staticmethod
    def layer_type(in_channels: int, out_channels: int, **options: Any) -> nn.Module:
        """Make a layer."""
        return ReIGN2Conv(in_channels, out_channels, terms=IGN2_OFF, root_terms=IGN2_ON, **options)

    def lifted_channels(self) -> int:
        """The node's channels, one for the adjacency, and the edge's."""
        return self.in_channels + 1 + self.edge_channels

    def lift(self, x: Tensor, bag: SubgraphBag) -> Tensor:
        """The graph as a tensor: features on the diagonal, edges off it."""
        given = bag.graph.edge_attr
        return graph_tensor(
            x, bag, self.edge_channels, given if self.edge_encoder is None or given is None else self.edge_encoder(given)
        )


class IGN2(TensorGNN):
    """2-IGN: the 15 global linear maps. Options as for ``TensorGNN``."""

    wl_bound = "2-WL: 2-IGNs are as strong as it (Geerts 2020), and 2-WL as 1-WL"


def graph_tensor(x: Tensor, bag: SubgraphBag, edge_channels: int, given: Tensor | None) -> Tensor:
    """``h[i, i] = [x_i, 0, 0]`` and ``h[k, i] = [0, A_ki, e_ki]``: how 2-IGN and PPGN take a graph."""
    source, target = bag.graph.edge_index
    edge = x.new_ones(source.numel(), 1)
    if edge_channels:
        if given is None or given.dim() != 2 or given.size(1) != edge_channels or not given.is_floating_point():
            shape = None if given is None else (tuple(given.shape), given.dtype)
            raise ValueError(f"edge_attr is {shape}, expected floating-point numbers of shape (edges, {edge_channels}).")
        edge = torch.cat([edge, given], dim=1)
    nodes = torch.cat([x, x.new_zeros(x.size(0), edge.size(1))], dim=1)
    edges = torch.cat([edge.new_zeros(edge.size(0), x.size(1)), edge], dim=1)
    h = x.new_zeros(bag.num_pairs, nodes.size(1)).index_copy(0, bag.root_row, nodes)
    return h.index_add(0, bag.row_within(target, source), edges)
