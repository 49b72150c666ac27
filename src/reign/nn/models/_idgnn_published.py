"""Identity-aware GNNs (You et al. 2021) as their authors published them."""

from functools import partial
from typing import Any, Literal, Unpack

from reign._validate import check, check_count
from reign.bags import Domain
from reign.nn._catalogue import MODELS
from reign.nn._layer import SubgraphConv
from reign.nn._model import SubgraphGNN
from reign.nn._options import PublishedOptions
from reign.nn._pooling import RootPooling
from reign.nn._state import Aggregation
from reign.policies import Policy

IDKind = Literal["id", "gcn", "gin"]


@MODELS.register("idgnnpublished", "ID-GNN (published)")
class IDGNNPublished(SubgraphGNN):
    r"""ID-GNN as published: layers with a second set of weights for roots, pre-layers, and roots of unit length.

    .. math:: \text{id:}  \quad & x^k_i \leftarrow \sigma \big( \textstyle\sum_{j \sim_k i} W x^k_j + [k \sim_k i] W' x^k_k \big) \\
              \text{gcn:} \quad & \text{the same with weights } 1 / \sqrt{d_i d_j}, \text{ and i among its neighbours} \\
              \text{gin:} \quad & x^k_i \leftarrow \sigma \big( f(m^k_i) + [i = k] f'(m^k_k) \big), \quad m^k_i = x^k_i + \textstyle\sum_{j \sim_k i} x^k_j

    Args:
        in_channels: number of channels of node features, after ``node_encoder`` if there is one.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers, and depth of the ego nets if ``policy`` is not given.
        out_channels: number of channels of the prediction; None gives the pooled vectors themselves.
        policy: any policy with roots; if not given "ego:T" with T layers, or the whole graph with more than 4.
        kind: "id", "gcn" or "gin".
        pre_layers: number of layers before the first one, applied to every value separately.
        post_layers: number of layers of the head.
        unit: whether the vectors of roots are divided by their length before they are pooled.
        graph_pooling: "sum" or "mean" over the roots.
        domain: whether norms range over "members" of ego nets, as published, or over "all" nodes.
        options: see ``PublishedOptions``.
    """

    drops_input = False
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds node-based Subgraph GNNs)"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy | None = None,
        kind: IDKind = "gin",
        pre_layers: int = 1,
        post_layers: int = 3,
        unit: bool = True,
        graph_pooling: Aggregation = "sum",
        domain: Domain = "members",
        **options: Unpack[PublishedOptions],
    ) -> None:
        check_count("num_layers", num_layers)
        check("kind", kind, kind in _ID_LAYERS, "'id', 'gcn' or 'gin'")
        check_count("pre_layers", pre_layers, 0)
        check_count("post_layers", post_layers)
        options.setdefault("pooling", partial(RootPooling, roots=graph_pooling, unit=unit))
        layer = partial(SubgraphConv, **_ID_LAYERS[kind])
        pre = partial(SubgraphConv, terms=["own"], transform="linear", bias=False)
        norm = options.get("norm", "batch_norm")
        super().__init__(
            in_channels,
            hidden_channels,
            num_layers,
            out_channels,
            policy=(f"ego:{num_layers}" if num_layers <= 4 else "null") if policy is None else policy,
            layer=[pre] * pre_layers + [layer] * num_layers,
            head={"hidden": [hidden_channels] * (post_layers - 1), "norm": norm, "bias": norm is None},
            conv="gcn" if kind == "gcn" else "gin",
            train_eps=False,
            domain=domain,
            **options,
        )


_ID_LAYERS: dict[str, dict[str, Any]] = {
    "id": {"terms": ["local", "root_msg"], "transform": "linear", "bias": False},
    "gcn": {"terms": ["own+local", "own_root+root_msg"], "bias": False, "norm_at": "end"},
    "gin": {"terms": ["own+local"], "root_terms": ["own+local"], "roots": "added", "norm_at": "end"},
}
