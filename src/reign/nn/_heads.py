"""mu, the head that predicts from pooled vectors; and a virtual node, which all pairs of a graph read from and write to."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import check
from reign.bags import SubgraphBag
from reign.nn._mlp import MLP, Activation, BatchNorm, NormRows, Resettable, make_act, make_norm, normalise
from reign.nn._state import State
from reign.nn._terms import TERMS


class Head(Resettable):
    """Linear, norm, activation and dropout for every hidden layer, followed by a linear map.

    Args:
        in_channels: number of channels of the pooled vectors.
        out_channels: number of channels of the prediction.
        act: activation.
        dropout: dropout probability after every hidden layer.
        hidden: numbers of channels of the hidden layers; one layer of ``2 * in_channels`` if not given, a single linear map if empty.
        norm: norm in every hidden layer, "batch_norm", "layer_norm" or None.
        bias: whether hidden layers have biases; the last linear map always has one.
        input_dropout: dropout probability of the pooled vectors.
        log_softmax: whether the predictions are log-probabilities of classes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        act: Activation = "relu",
        dropout: float = 0.0,
        *,
        hidden: Sequence[int] | None = None,
        norm: str | None = None,
        bias: bool = True,
        input_dropout: float = 0.0,
        log_softmax: bool = False,
    ) -> None:
        super().__init__()
        hidden = [2 * in_channels] if hidden is None else hidden
        valid = isinstance(hidden, list | tuple) and all(type(size) is int and size >= 1 for size in hidden)
        check("head.hidden", hidden, valid, "a list of whole numbers of at least 1")
        widths = [in_channels, *hidden, out_channels]
        self.depth, self.log_softmax = len(widths) - 1, log_softmax
        for place, (a, b) in enumerate(pairwise(widths), 1):
            self.add_module(f"lin{place}", nn.Linear(a, b, bias=bias or place == self.depth))
            if place < self.depth:
                self.add_module(f"norm{place}", make_norm(norm, b))
        self.act = make_act(act)
        self.dropout, self.input_dropout = nn.Dropout(dropout), nn.Dropout(input_dropout)

    def forward(self, x: Float[Tensor, "rows in_channels"], rows: NormRows = None) -> Float[Tensor, "rows out_channels"]:
        """Predict from pooled vectors; the statistics of norms are taken over ``rows`` only."""
        x = self.input_dropout(x)
        for place in range(1, self.depth):
            norm = self.get_submodule(f"norm{place}")
            x = self.dropout(self.act(normalise(norm, self.get_submodule(f"lin{place}")(x), rows)))
        x = self.get_submodule(f"lin{self.depth}")(x)
        return torch.log_softmax(x, dim=1) if self.log_softmax else x


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
