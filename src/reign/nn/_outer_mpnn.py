"""NGNN's pooling: message passing on the graph itself."""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor, nn

from reign.nn._conv import SubgraphConv
from reign.nn._options import EncoderOptions
from reign.nn._pooling import Pooling, checked, readout
from reign.nn._state import Aggregation, State
from reign.policies import whole


class OuterMPNN(Pooling):
    r"""Readouts of subgraphs :math:`x_i = \sum_j x^i_j`, then message passing on the graph itself, and a mean or sum over nodes.

    Args:
        channels: number of channels of the values.
        num_layers: number of layers of the outer network.
        nodes: "mean" or "sum" over the nodes of a subgraph.
        graph: "mean" or "sum" over the nodes of the graph.
        options: options of the outer layers; see ``EncoderOptions``.
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
