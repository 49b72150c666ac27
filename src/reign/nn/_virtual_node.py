"""A virtual node: one vector for every graph, which all pairs read from and write to."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign.bags import SubgraphBag
from reign.nn._mlp import MLP, Activation, BatchNorm, Resettable, make_act, normalise
from reign.nn._state import State
from reign.nn._terms import TERMS


class VirtualNode(Resettable):
    r"""A vector u for every graph. Before each layer :math:`x^k_i \leftarrow x^k_i + u`, and with each layer except the last

    .. math:: u \leftarrow \sigma \big( \mathrm{MLP} ( u + \textstyle\sum_{k, i} x^k_i ) \big),

    where x are the inputs of the layer, and batch norms are in the MLP and after it. The initial u is a learned vector, which starts at 0.

    Args:
        widths: numbers of channels before the first layer and after each layer except the last.
        residual: whether u is added to its update.
        dropout: dropout probability of updates.
        act: activation.
    """

    def __init__(self, widths: Sequence[int], residual: bool, dropout: float, act: Activation) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(1, widths[0]))
        sizes = list(pairwise(widths))
        self.mlps = nn.ModuleList([MLP(a, b, hidden=2 * b, act=act) for a, b in sizes])
        self.norms = nn.ModuleList([BatchNorm(b) for _, b in sizes])
        self.act, self.dropout = make_act(act), nn.Dropout(dropout)
        self.residual = residual

    def reset_own(self) -> None:
        """The first vector is zero again."""
        self.start.zero_()

    def first(self, bag: SubgraphBag) -> Float[Tensor, "graphs channels"]:
        """The vectors before the first layer."""
        return self.start.expand(bag.num_graphs, -1).contiguous()

    def read(self, state: State, u: Float[Tensor, "graphs channels"]) -> State:
        """Add the vector of its graph to every value."""
        wiring = state.bag.wiring
        return State(state.h + wiring.to_sub.t(wiring.sub_to_graph.t(u)), state.bag, state.domain)

    def forward(self, u: Float[Tensor, "graphs channels"], state: State, layer: int) -> Float[Tensor, "graphs out_channels"]:
        """The vectors after a layer, given the inputs of that layer."""
        if layer == len(self.mlps):
            return u
        rows = state.bag.real("graph")
        new = self.mlps[layer](u + state.get(TERMS["total"]), rows)
        new = self.dropout(self.act(normalise(self.norms[layer], new, rows)))
        return u + new if self.residual and u.shape == new.shape else new
