"""Checks of what a model is called with, beside those of the policy: a prepared bag, and node features."""

import warnings
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from reign._validate import kind_of
from reign.bags import SubgraphBag
from reign.policies import Policy


def check_bag(bag: Any, policy: Policy, edge_index: Shaped[Tensor, "..."], edge_attr: Shaped[Tensor, "..."] | None = None) -> None:
    """Raise ``ValueError`` if a bag is not one that the policy made of this batch."""
    if not isinstance(bag, SubgraphBag):
        raise ValueError(f"bag is {kind_of(bag)}, expected a SubgraphBag; make it with model.policy(x, edge_index, ...).")
    if bag.policy is not policy and bag.policy != policy:
        raise ValueError(f"the bag was made by policy '{bag.policy}', expected '{policy}'; make it with model.policy.")
    if edge_index.shape != bag.graph.edge_index.shape or (edge_attr is not None and bag.graph.edge_attr is None):
        raise ValueError("the bag was made of another batch, or without its edge_attr; make it with model.policy of this one.")


def warn_of_unused_edges(kind: str, options: list[str], given: dict[str, Any]) -> None:
    """Warn where edge features go to a model that could use them and was made without.

    It is no mistake where a model was made with ``edge_encoder=None`` in so many words, or has layers of a user's own.

    Args:
        kind: name of the class of the model.
        options: names of the arguments that its constructor takes.
        given: those that it was given; empty if they are not known.
    """
    if not given or "edge_dim" not in options or any(name in given for name in ("edge_dim", "edge_encoder", "layer")):
        return
    warnings.warn(
        f"edge_attr was given, and {kind} was made without edge_dim or edge_encoder, so that it is not used; make the model "
        "with edge_dim=<number of channels>, or edge_encoder=<number of types>; or with edge_encoder=None, or leave edge_attr out, to do without.",
        stacklevel=5,  # the call of the model
    )


def check_features(x: Shaped[Tensor, "..."], channels: int, dtype: torch.dtype) -> None:
    """Raise ``ValueError`` if node features are not numbers of the right kind and shape."""
    if not x.is_floating_point():
        raise ValueError(
            f"x has dtype {x.dtype}, expected floating-point features; for types give node_encoder=<their number>, otherwise "
            "use x.float()."
        )
    if x.dim() != 2 or x.size(1) != channels:
        raise ValueError(f"x has {x.shape[-1]} channels, expected in_channels={channels}: shape (nodes, {channels}).")
    if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(
            f"x has dtype {x.dtype} and the model {dtype}, expected one of them; use x.to({dtype}) or model.to({x.dtype})."
        )
