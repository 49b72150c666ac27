"""ReIGN(2), the whole layer space of the paper."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Unpack

from reign.nn._catalogue import MODELS
from reign.nn._layer import SubgraphConv, Transform
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, ModelOptions
from reign.nn._state import Aggregation
from reign.policies import Policy

# the 15 linear maps of 2-IGN: 10 off the diagonal, 5 on it
IGN2_OFF = [
    "own",
    "transpose",
    "non_roots",
    "needle_strict",
    "readout_strict",
    "node_readout_strict",
    "root_needle_strict",
    "root",
    "node_root",
    "roots",
]
IGN2_ON = ["own", "roots", "readout_strict", "needle_strict", "non_roots"]
# and their local forms, on the subgraph and on the graph
LOCAL_OFF = ["non_roots", "needle", "readout", "node_readout", "root_needle", "roots"]
LOCAL_ON = ["roots", "readout", "needle", "non_roots"]
REIGN2_OFF = IGN2_OFF + [f"{name}@{where}" for name in LOCAL_OFF for where in ("Ak", "A")]
REIGN2_ON = IGN2_ON + [f"{name}@{where}" for name in LOCAL_ON for where in ("Ak", "A")]


class ReIGN2Conv(SubgraphConv):
    """A ReIGN(2) layer: all entries of the paper's expansion table in their three forms, or a selection of them.

    Args:
        terms: terms off the diagonal; the whole table if not given.
        root_terms: terms on the diagonal; the whole table if not given.
        transform: "linear", as in the paper, or "mlp".
        edge_terms: whether all terms along edges use edge features, and not only base encoders; see ``SubgraphConv``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        terms: Sequence[str] = tuple(REIGN2_OFF),
        root_terms: Sequence[str] | None = tuple(REIGN2_ON),
        transform: Transform = "linear",
        aggregation: dict[str, Aggregation] | None = None,
        edge_terms: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            terms,
            root_terms,
            transform=transform,
            aggregation=aggregation,
            edge_terms=edge_terms,
            **options,
        )


class ReIGN2Options(ModelOptions, total=False):
    """Options of ``ReIGN2``."""

    aggregation: dict[str, Aggregation] | None


@MODELS.register("reign2", "ReIGN(2)")
class ReIGN2(SubgraphGNN):
    """ReIGN(2): the whole layer space by default, or any selection of its terms.

    Args:
        policy: any node-based policy.
        terms, root_terms, transform, edge_terms: see ``ReIGN2Conv``.
    """

    wl_bound = "3-WL (Corollary: 3-WL upper-bounds ReIGN(2))"
    linear_form: ClassVar[dict[str, Any]] = {"conv": "graphconv", "norm": None, "domain": "all"}

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego+:3",
        terms: Sequence[str] = tuple(REIGN2_OFF),
        root_terms: Sequence[str] | None = tuple(REIGN2_ON),
        transform: Transform = "linear",
        edge_terms: bool = False,
        **options: Unpack[ReIGN2Options],
    ) -> None:
        aggregation = options.pop("aggregation", None)
        layer = partial(
            ReIGN2Conv, terms=terms, root_terms=root_terms, transform=transform, aggregation=aggregation, edge_terms=edge_terms
        )
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=layer, **options)
