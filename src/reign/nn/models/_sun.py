"""Subgraph Union Networks: the paper's own model."""

from functools import partial
from typing import Any, ClassVar, Unpack

from reign.nn._catalogue import MODELS
from reign.nn._layer import SubgraphConv, Transform
from reign.nn._model import SubgraphGNN
from reign.nn._options import LayerOptions, ModelOptions, RootNorms
from reign.nn._state import Aggregation
from reign.policies import Policy


def sun_terms(transpose: bool, readout: bool) -> tuple[list[str], list[str]]:
    """The terms of SUN for all pairs, and for roots."""
    off = ["node_root", "root", "own", *(["transpose"] if transpose else []), *(["readout"] if readout else [])]
    on = ["own", *(["readout"] if readout else [])]
    return [*off, "own+local", "needle+needle_msg"], [*on, "own+local", "needle+needle_msg"]


class SUNConv(SubgraphConv):
    r"""A SUN layer (eq. sun_exp_on and sun_exp_off; with ``transform="linear"`` and ``conv="graphconv"`` the linear form).

    .. math::
        x^i_i &\leftarrow \sigma \big( \mu^2_r(x^i_i) + \mu^3_r(\textstyle\sum_j x^i_j)
            + \gamma^0_r(x^i_i, \sum_{j \sim_i i} x^i_j) + \gamma^1_r(\sum_h x^h_i, \sum_{j \sim i} \sum_h x^h_j) \big) \\
        x^k_i &\leftarrow \sigma \big( \mu^0(x^i_i) + \mu^1(x^k_k) + \mu^2(x^k_i) + \mu^3(\textstyle\sum_j x^k_j)
            + \gamma^0(x^k_i, \sum_{j \sim_k i} x^k_j) + \gamma^1(\sum_h x^h_i, \sum_{j \sim i} \sum_h x^h_j) \big)

    By default the sum over h is replaced by a mean, as in the authors' experiments.

    Args:
        transpose: whether to add the term x[i, k].
        readout: whether to include the terms with the sum over a subgraph (they are left out for molhiv).
        transform: the maps mu, "mlp" or "linear".
        needle: "mean" or "sum" over subgraphs.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        transpose: bool = False,
        readout: bool = True,
        transform: Transform = "mlp",
        needle: Aggregation = "mean",
        root_norms: RootNorms = "roots",
        **options: Unpack[LayerOptions],
    ) -> None:
        off, on = sun_terms(transpose, readout)
        super().__init__(
            in_channels,
            out_channels,
            off,
            on,
            transform=transform,
            aggregation={"needle": needle},
            root_norms=root_norms,
            **options,
        )


@MODELS.register("sun")
class SUN(SubgraphGNN):
    """Subgraph Union Network: SUN layers, then means over nodes and over subgraphs.

    Args:
        policy: any node-based policy.
        transpose, readout, transform, needle, root_norms: see ``SUNConv``.
    """

    needs_node_based = True
    wl_bound = "3-WL (Corollary: 3-WL upper-bounds ReIGN(2))"
    linear_form: ClassVar[dict[str, Any]] = {
        "conv": "graphconv",
        "norm": None,
        "domain": "all",
        "transform": "linear",
        "needle": "sum",
    }

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "ego+:3",
        transpose: bool = False,
        readout: bool = True,
        transform: Transform = "mlp",
        needle: Aggregation = "mean",
        root_norms: RootNorms = "roots",
        **options: Unpack[ModelOptions],
    ) -> None:
        layer = partial(SUNConv, transpose=transpose, readout=readout, transform=transform, needle=needle, root_norms=root_norms)
        super().__init__(in_channels, hidden_channels, num_layers, out_channels, policy=policy, layer=layer, **options)
