"""SSWL+ (Zhang et al. 2023): message passing along both axes of the bag."""

from typing import Unpack

from reign.nn._catalogue import MODELS
from reign.nn._layer import SubgraphConv, Transform
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, ModelOptions
from reign.nn._state import Aggregation
from reign.policies import Policy


class SSWLConv(SubgraphConv):
    r"""Message passing along nodes and along subgraphs, plus the root term x[i, i].

    .. math:: x^k_i \leftarrow \sigma \big( \gamma^0(x^k_i, \textstyle\sum_{j \sim_k i} x^k_j)
              + \gamma^1(x^k_i, \sum_{h \sim k} x^h_i) + \mu(x^i_i) \big)

    Args:
        transform: the map mu, "mlp" or "linear".
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        transform: Transform = "mlp",
        aggregation: dict[str, Aggregation] | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        terms = ["own+local", "own+swap_local", "node_root"]
        super().__init__(in_channels, out_channels, terms, transform=transform, aggregation=aggregation, **options)


@MODELS.register("sswl")
class SSWL(SubgraphGNN):
    """SSWL+: message passing along both axes of the bag, with distance marks and means over nodes and subgraphs.

    Args:
        policy: any node-based policy.
    """

    needs_node_based = True
    wl_bound = "3-WL: message passing along both axes is a 3-IGN operation, because 2-FWL refines it (Zhang et al. 2023); no construction here"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "nm+distance",
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=SSWLConv, **options)
