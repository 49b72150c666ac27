"""Checks of a model's inputs beyond those of the policy: a prepared bag, and node features."""

import warnings
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from reign._validate import kind_of
from reign.bags import SubgraphBag
from reign.policies import Policy


def check_bag(bag: Any, policy: Policy, edge_index: Shaped[Tensor, "..."], edge_attr: Shaped[Tensor, "..."] | None = None) -> None:
    """Raise ``ValueError`` if a bag was not made from this batch by this policy."""
    if not isinstance(bag, SubgraphBag):
        raise ValueError(f"bag is {kind_of(bag)}, expected a SubgraphBag; make it with model.policy(x, edge_index, ...).")
    if bag.policy is not policy and bag.policy != policy:
        raise ValueError(f"the bag was made by policy '{bag.policy}', expected '{policy}'; make it with model.policy.")
    if edge_index.shape != bag.graph.edge_index.shape or (edge_attr is not None and bag.graph.edge_attr is None):
        raise ValueError(
            "the bag was made from another batch, or without its edge_attr; make it from this batch with model.policy."
        )


def warn_of_unused_edges(kind: str, options: list[str], given: dict[str, Any]) -> None:
    """Warn if edge features are given to a model that could use them but was made without edge_dim and edge_encoder.

    There is no warning if ``edge_encoder=None`` was given explicitly, or if the model has custom layers.

    Args:
        kind: name of the class of the model.
        options: names of the arguments that its constructor takes.
        given: the arguments that it was given; empty if they are not known.
    """
    if not given or "edge_dim" not in options or any(name in given for name in ("edge_dim", "edge_encoder", "layer")):
        return
    warnings.warn(
        f"edge_attr was given, but it is not used because {kind} was made without edge_dim or edge_encoder. To use it, make the model "
        "with edge_dim=<number of channels> or edge_encoder=<number of types>; to ignore it, use edge_encoder=None or leave edge_attr out.",
        stacklevel=5,  # the call of the model
    )


def check_features(x: Shaped[Tensor, "..."], channels: int, dtype: torch.dtype) -> None:
    """Raise ``ValueError`` if node features are not numbers of the right kind and shape."""
    if not x.is_floating_point():
        raise ValueError(
            f"x has dtype {x.dtype}, expected floating-point features; for integer types make the model with "
            "node_encoder=<number of types>, otherwise use x.float()."
        )
    if x.dim() != 2 or x.size(1) != channels:
        raise ValueError(f"x has {x.shape[-1]} channels, expected in_channels={channels}: shape (nodes, {channels}).")
    if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(
            f"x has dtype {x.dtype} and the model {dtype}, expected the same dtype; use x.to({dtype}) or model.to({x.dtype})."
        )
