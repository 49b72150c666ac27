"""The local 2-folklore GNN (Zhang et al. 2024): message passing along both axes, from two pairs at once."""

from functools import partial
from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from reign._validate import check
from reign.nn._catalogue import MODELS
from reign.nn._layer import SubgraphConv
from reign.nn._mlp import MLP, Activation, make_act, make_norm, normalise
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, ModelOptions
from reign.nn._pooling import Pooling, subgraphs_to_graphs
from reign.nn._state import State
from reign.policies import Policy


class LocalFolkloreConv(SubgraphConv):
    r"""A layer of ``LocalFolklore``: both folklore sums, and the sum over subgraphs, each with an MLP; one norm after their sum.

    .. math:: x^k_i \leftarrow \sigma \big( \mathrm{bn} \big( \gamma^0(x^k_i, \textstyle\sum_{j \sim i} x^k_j x^j_i, \sum_{j \sim k} x^k_j x^j_i)
              + \gamma^1(x^k_i, \sum_h x^h_i) \big) \big)

    where :math:`\gamma^0` is ``Folklore``, which uses a learned function of both values in place of their product.
    """

    def __init__(self, in_channels: int, out_channels: int, **options: Unpack[LayerOptions]) -> None:
        terms = ["own+folklore+swap_folklore", "own+needle"]
        super().__init__(in_channels, out_channels, terms, norm_at="sum", bias=False, **options)


class ReadoutPooling(Pooling):
    r"""A transform of every subgraph's readout, and the mean over subgraphs: :math:`\frac{1}{m} \sum_k \sigma(\mathrm{bn} \, \mathrm{MLP}(\sum_i x^k_i))`.

    Args:
        norm: "batch_norm", "layer_norm" or None.
        act: activation.
    """

    def __init__(self, channels: int, norm: str | None = "batch_norm", act: Activation = "relu") -> None:
        super().__init__()
        self.out_channels = channels
        self.mlp = MLP(channels, channels, norm=norm, act=act, bias=norm is None)
        self.norm, self.act = make_norm(norm, channels), make_act(act)

    def forward(self, state: State) -> Float[Tensor, "graphs channels"]:
        """Pool a bag to one row per graph."""
        rows = state.bag.real("sub")
        return subgraphs_to_graphs(state.bag, self.act(normalise(self.norm, self.mlp(state.readout, rows), rows)), "mean")


@MODELS.register("localfolklore", "Local 2-FGNN")
class LocalFolklore(SubgraphGNN):
    """The local 2-folklore GNN, with embedded hop distances: its layers sum messages from x[k, j] and x[j, i] over neighbours j.

    Args:
        policy: any node-based policy.
        max_distance: greater hop distances and unreachable nodes share the embedding of this distance; 0 for no embedding. ``labels``
            replaces it.
    """

    needs_node_based = True
    drops_input = False
    wl_bound = "3-WL: local 2-FWL sums over some of the nodes that 2-FWL sums over (Zhang et al. 2024); no construction here"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "null",
        max_distance: int = 5,
        **options: Unpack[ModelOptions],
    ) -> None:
        check("max_distance", max_distance, type(max_distance) is int and max_distance >= 0, "a whole number of at least 0")
        if max_distance and options.get("labels") is None:
            options["labels"] = {"kind": "hop", "max_distance": max_distance, "far": False}
        norm, act = options.get("norm", "batch_norm"), options.get("act", "relu")
        options.setdefault("pooling", partial(ReadoutPooling, norm=norm, act=act))
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=LocalFolkloreConv, **options)
