"""Baselines that look at the graph itself: message passing, and PPGN."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from reign.bags import SubgraphBag
from reign.nn._mlp import MLP, Activation, make_act, make_norm, num_parameters
from reign.nn._model import reject
from reign.nn._pooling import MeanPooling
from reign.nn._state import Aggregation
from reign.nn._subgraph_gnn import SubgraphGNN
from reign.nn.models._esan import DSConv
from reign.nn.models._reign2 import TensorGNN


class MPNN(SubgraphGNN):
    """Plain message passing: the base encoder on the graph, a bag of one.

    Args:
        in_channels: of node features, after ``node_encoder`` if there is one.
        hidden_channels: of the layers.
        num_layers: of them.
        out_channels: of the prediction; None gives the pooled vectors themselves.
        conv: "gin", "gine", "gcn", "graphconv", or any convolution of PyG.
        graph_pooling: "mean" or "sum" over nodes.
        options: all others of ``SubgraphGNN`` but the policy.
    """

    takes_policy = False
    wl_bound = "1-WL: message passing on the graph itself"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        graph_pooling: Aggregation = "mean",
        **options: Any,
    ) -> None:
        reject(self, options, "policy")
        options.setdefault("pooling", partial(MeanPooling, nodes=graph_pooling))
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy="whole", layer=DSConv, **options)


class PPGNConv(nn.Module):
    r"""A block of a provably powerful graph network (Maron et al. 2019), with a matrix product over nodes in every channel.

    .. math:: h \leftarrow \sigma \big( W [h, m_1(h) \cdot m_2(h)] \big)
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, act: Activation = "relu", norm: str | None = "batch_norm", **_: Any
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.left = MLP(in_channels, out_channels, norm=norm, act=act)
        self.right = MLP(in_channels, out_channels, norm=norm, act=act)
        self.skip = nn.Linear(in_channels + out_channels, out_channels)
        self.norm = make_norm(norm, out_channels)
        self.act = make_act(act)

    def forward(self, h: Tensor, bag: SubgraphBag, edge_attr: Tensor | None = None) -> Tensor:
        """Update the values of the pairs of a bag."""
        product = _matrix_product(self.left(h), self.right(h), bag)
        out: Tensor = self.act(self.norm(self.skip(torch.cat([h, product], dim=1))))
        return out

    def describe(self) -> str:
        """The update equation and the parameters."""
        size = num_parameters(self)
        return (
            f"PPGNConv({self.in_channels} -> {self.out_channels}), {size:,} parameters\n"
            f"  x[k,i] <- {type(self.act).__name__}(Linear[x[k,i], mean_j MLP(x)[k,j] * MLP(x)[j,i]])\n"
            "  cost: 4 passes over pairs, and a matrix product of n^3 a channel"
        )

    def __repr__(self) -> str:
        return f"PPGNConv({self.in_channels} -> {self.out_channels}, terms=['own', 'matrix product'])"


class PPGN(TensorGNN):
    """Provably powerful graph network: as strong as 3-WL, at cubic cost. Options as for ``TensorGNN``."""

    wl_bound = "3-WL: PPGN is as strong as it (Maron et al. 2019)"

    @staticmethod
    def layer_type(in_channels: int, out_channels: int, **options: Any) -> nn.Module:
        """Make a layer."""
        return PPGNConv(in_channels, out_channels, **options)


def _matrix_product(a: Tensor, b: Tensor, bag: SubgraphBag) -> Tensor:
    """sum_j a[k, j] b[j, i], scaled by 1 / n: padded for the product alone, and with zeros, so nothing leaks between graphs."""
    n = int(bag.graph.sizes.max()) if bag.num_graphs else 0
    first = bag.graph.ptr[bag.pair_batch]
    place = (bag.pair_batch * n + bag.sub - first) * n + bag.node - first

    def dense(rows: Tensor) -> Tensor:
        padded = rows.new_zeros(bag.num_graphs * n * n, rows.size(1)).index_copy(0, place, rows)
        return padded.view(bag.num_graphs, n, n, rows.size(1)).permute(0, 3, 1, 2)

    product = (dense(a) @ dense(b)).permute(0, 2, 3, 1).reshape(bag.num_graphs * n * n, a.size(1))
    return product.index_select(0, place) / bag.graph.sizes[bag.pair_batch][:, None]
