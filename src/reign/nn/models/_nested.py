"""Nested GNNs (Zhang & Li 2021) and identity-aware GNNs (You et al. 2021): every ego net is processed separately."""

from functools import partial
from typing import Any, ClassVar, Unpack, cast

from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import Domain
from reign.nn._catalogue import MODELS
from reign.nn._layer import SubgraphConv
from reign.nn._model import SubgraphGNN, hops_of
from reign.nn._options import EncoderOptions, LayerOptions, MemberModelOptions
from reign.nn._pooling import Pooling, RootPooling, checked, readout
from reign.nn._state import Aggregation, State
from reign.nn.models._ds import DSConv
from reign.policies import Policy, whole


class OuterMPNN(Pooling):
    r"""Readouts of subgraphs :math:`x_i = \sum_j x^i_j`, then message passing on the graph itself, and a mean or sum over nodes.

    Args:
        num_layers: number of layers of the outer network, which all options but the next two are of.
        nodes: "mean" or "sum" over the nodes of a subgraph.
        graph: "mean" or "sum" over the nodes of the graph.
    """

    def __init__(
        self,
        channels: int,
        num_layers: int = 1,
        nodes: Aggregation = "sum",
        graph: Aggregation = "sum",
        **options: Unpack[EncoderOptions],
    ) -> None:
        super().__init__()
        self.out_channels = channels
        self.over_nodes, self.over_graph = checked(nodes), checked(graph)
        self.layers = nn.ModuleList([SubgraphConv(channels, channels, ["own+local"], **options) for _ in range(num_layers)])

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        out, bag = self.nodes(state), state.bag
        total = bag.wiring.node_to_graph(out)
        return total if self.over_graph == "sum" else total / bag.graph.sizes.clamp(min=1)[:, None]

    def nodes(self, state: State) -> Float[Tensor, "nodes channels"]:
        """Node i is the output of the outer network, whose inputs are the readouts of subgraphs."""
        x, graph = state.bag.at_roots(readout(state, self.over_nodes), "NGNN's outer network"), whole(state.bag)
        for layer in self.layers:
            x = layer(x, graph)
        return x

    def reach(self, radius: int) -> int | None:
        """One hop with each outer layer, and no further to degrees, because ego nets have a radius of at least 1."""
        return len(self.layers) if hops_of(self.layers) is not None else None


@MODELS.register("ngnn")
class NGNN(SubgraphGNN):
    """Nested GNN (eq. NestedGNN): message passing in every ego net, a readout of each ego net as a vector of its root, then message passing
    on the graph.

    Args:
        num_layers: number of layers of the inner network.
        policy: any node-based policy.
        outer_layers: number of layers of the outer network.
        readout: "sum" or "mean" over the nodes of an ego net.
        graph_pooling: "sum" or "mean" over the nodes of the graph.
        domain: whether sums range over "members" of ego nets, as in the original, or over "all" nodes.
    """

    needs_node_based = True
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all"}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego:3",
        outer_layers: int = 1,
        readout: Aggregation = "sum",
        graph_pooling: Aggregation = "sum",
        domain: Domain = "members",
        **options: Unpack[MemberModelOptions],
    ) -> None:
        outer = cast(EncoderOptions, {name: value for name, value in options.items() if name in EncoderOptions.__annotations__})
        options.setdefault("pooling", partial(OuterMPNN, num_layers=outer_layers, nodes=readout, graph=graph_pooling, **outer))
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=DSConv, domain=domain, **options
        )


class IDConv(SubgraphConv):
    r"""Message passing in which messages from the root have their own weights (eq. IDGNN).

    .. math:: x^k_i \leftarrow \sigma \big( \gamma(x^k_i, W_0 \textstyle\sum_{j \sim_k i, j \neq k} x^k_j
              + 1_{[k \sim_k i]} W_1 x^k_k) \big)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        aggregation: dict[str, Aggregation] | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(in_channels, out_channels, ["own+local_others+root_msg"], aggregation=aggregation, **options)


@MODELS.register("idgnn")
class IDGNN(SubgraphGNN):
    """Identity-aware GNN: heterogeneous message passing in every marked ego net, then a pooling of the roots.

    Args:
        num_layers: number of layers, and depth of the ego nets if ``policy`` is not given.
        policy: any policy with roots; "ego+:T" with T layers if not given.
        graph_pooling: "sum" or "mean" over the roots.
        domain: whether norms range over "members" of ego nets, as in the original, or over "all" nodes.
    """

    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all"}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy | None = None,
        graph_pooling: Aggregation = "sum",
        domain: Domain = "members",
        **options: Unpack[MemberModelOptions],
    ) -> None:
        options.setdefault("pooling", partial(RootPooling, roots=graph_pooling))
        policy = f"ego+:{num_layers}" if policy is None else policy
        super().__init__(
            in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=IDConv, domain=domain, **options
        )
