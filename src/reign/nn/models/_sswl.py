"""SSWL+ (Zhang et al. 2023): message passing along both axes of the bag."""

from typing import Any

from reign.nn._conv import SubgraphConv
from reign.nn._subgraph_gnn import SubgraphGNN
from reign.policies import Policy


class SSWLConv(SubgraphConv):
    r"""Along nodes, along subgraphs, and the single point.

    .. math:: x^k_i \leftarrow \sigma \big( \gamma^0(x^k_i, \textstyle\sum_{j \sim_k i} x^k_j)
              + \gamma^1(x^k_i, \sum_{h \sim k} x^h_i) + \mu(x^i_i) \big)
    """

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, ["own+local", "own+swap_local", "node_root"], **options)


class SSWL(SubgraphGNN):
    """SSWL+ with distance marks, and means over nodes and subgraphs. Options as for ``SubgraphGNN``.

    Args:
        in_channels: of node features, after ``node_encoder`` if there is one.
        hidden_channels: of the layers.
        num_layers: of them.
        out_channels: of the prediction; None gives the pooled vectors themselves.
        policy: any node-based policy.
        options: all others of ``SubgraphGNN``.
    """

    needs_node_based = True
    wl_bound = (
        "3-WL: message passing along both axes is a 3-IGN operation, as 2-FWL refines it (Zhang et al. 2023); no construction here"
    )

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "nm+distance",
        **options: Any,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=SSWLConv, **options)
