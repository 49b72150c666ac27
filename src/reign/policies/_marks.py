"""Marks: channels in front of the features that describe the position of a node in a subgraph."""

from typing import Any, Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from reign.bags import FAR
from reign.policies._pairs import Pairs

Mark = Literal[False, True, "distance"]


def num_marks(mark: Mark, max_distance: int, num_anchors: int) -> int:
    """The number of channels of ``marks``."""
    if mark is False:
        return 0
    return num_anchors + 1 if mark is True else num_anchors * (max_distance + 2)


def marks(mark: Mark, max_distance: int, pairs: Pairs, member: Tensor, radius: int | None) -> Bool[Tensor, "pairs marks"] | None:
    r"""The channels in front of the features.

    With ``mark=True`` there is one channel per anchor, which is 1 at that node, and one channel that is 1 at all other nodes: [1, 0] at
    a root and [0, 1] elsewhere. With ``mark="distance"`` there is for each anchor the one-hot hop distance 0, ..., ``max_distance``
    (greater distances count as ``max_distance``), and a last channel for nodes of another component and nodes that are not members.
    """
    if mark is False:
        return None
    if mark is True:
        here = pairs.is_anchor
        return torch.cat([here, ~here.any(dim=1, keepdim=True)], dim=1)
    hops = pairs.hops(radius)
    out = (hops == FAR) | ~member[:, None]
    level = hops.clamp(max=max_distance).masked_fill(out, max_distance + 1)
    return (level[:, :, None] == torch.arange(max_distance + 2, device=level.device)).flatten(1)


def check_mark(mark: Any, max_distance: Any) -> None:
    """Raise ``ValueError`` unless the mark is valid, with a largest distance if it is "distance"."""
    if not isinstance(mark, bool) and mark != "distance":
        raise ValueError(f"mark is {mark!r}, expected False, True (the root) or 'distance' (one-hot hop distance).")
    if mark == "distance" and (type(max_distance) is not int or not 1 <= max_distance < FAR):
        raise ValueError(
            f"max_distance is {max_distance!r}, expected a whole number from 1 to {FAR - 1}; greater distances share its channel."
        )
