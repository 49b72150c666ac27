"""Plain message passing on the graph itself, as a baseline."""

from functools import partial
from typing import Unpack

from reign.nn._catalogue import MODELS
from reign.nn._model import SubgraphGNN
from reign.nn._options import ModelOptions
from reign.nn._pooling import MeanPooling
from reign.nn._state import Aggregation
from reign.nn.models._ds import DSConv


@MODELS.register("mpnn", "GIN")  # its default conv
class MPNN(SubgraphGNN):
    """Plain message passing: the base encoder on the graph itself, as a bag with one subgraph.

    Args:
        graph_pooling: "mean" or "sum" over nodes.
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
        **options: Unpack[ModelOptions],
    ) -> None:
        options.setdefault("pooling", partial(MeanPooling, nodes=graph_pooling))
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy="whole", layer=DSConv, **options)
