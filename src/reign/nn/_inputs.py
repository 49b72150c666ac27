"""The inputs of a model: those of a PyG graph, checks beyond those of the policy, and the edge masks of explainers."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch_geometric.data.data import BaseData
from torch_geometric.nn import MessagePassing

from reign._validate import kind_of
from reign.bags import SubgraphBag
from reign.policies import Policy


class Inputs(NamedTuple):
    """The arguments of a model that a PyG ``Data`` or ``Batch`` has."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor | None
    batch_size: int | None
    hop_distance: Tensor | None
    bag: SubgraphBag | None
    edge_label_index: Tensor | None


def inputs_of(data: Any, *others: Any) -> Inputs:
    """The arguments of ``model(data)``. Raise ``ValueError`` if further arguments are given, or if the data are not a graph with features."""
    if not isinstance(data, BaseData) or getattr(data, "edge_index", None) is None or getattr(data, "x", None) is None:
        bare = isinstance(data, BaseData) and getattr(data, "edge_index", None) is not None
        hint = " For nodes without features: data.x = torch.ones(data.num_nodes, 1), and in_channels 1." if bare else ""
        raise ValueError(
            f"the first argument is {kind_of(data)}, expected features x, or a torch_geometric.data.Data or Batch with x and edge_index.{hint}"
        )
    if any(other is not None for other in others):
        raise ValueError("model(data) takes edge_index, edge_attr and batch from data; leave them out.")
    batch = getattr(data, "batch", None)
    optional = [getattr(data, name, None) for name in ("hop_distance", "bag", "edge_label_index")]
    size = getattr(data, "num_graphs", None) if batch is not None else None
    return Inputs(data.x, data.edge_index, getattr(data, "edge_attr", None), batch, size, *optional)


def refuse_arguments(kind: str, names: list[str]) -> NoReturn:
    """Raise ``ValueError`` for arguments that the call of a model does not take."""
    hint = " To use weights of edges, give them as edge_attr, shape (edges, 1), to a model made with edge_dim=1."
    raise ValueError(
        f"{kind} was called with {', '.join(names)}, expected only x, edge_index, edge_attr, batch, batch_size, bag and edge_label_index."
        + (hint if "edge_weight" in names else "")
    )


def check_ends(ends: Any, level: str, bag: SubgraphBag) -> None:
    """Raise ``ValueError`` unless these are pairs of nodes, and the model predicts for pairs of nodes."""
    if level != "edge":
        raise ValueError(f"edge_label_index was given, but the model predicts at {level} level; make it with task_level='edge'.")
    valid = isinstance(ends, Tensor) and ends.dim() == 2 and ends.size(0) == 2 and ends.dtype == torch.long
    if valid and ends.device.type == "cpu" and ends.numel():
        valid = bool(((ends >= 0) & (ends < bag.num_nodes)).all())
    if not valid:
        raise ValueError(
            f"edge_label_index is {kind_of(ends)}, expected shape (2, pairs) and dtype torch.long with nodes from 0 to {bag.num_nodes - 1}."
        )


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


def warn_of_unused_edges(kind: str, options: list[str], given: Mapping[str, object]) -> None:
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


class EdgeMask(MessagePassing):  # type: ignore[misc]
    """Receives the mask that ``torch_geometric.explain`` sets on every message-passing layer. The model weights its edges by this mask.

    It passes no messages itself, has no parameters, and has no effect while no mask is set.
    """

    explain: bool | None = None  # a plain attribute that hides PyG's property, which would set up a layer for message passing

    def __init__(self) -> None:
        nn.Module.__init__(self)  # skip the code that PyG generates for a message-passing layer
        self._edge_mask: Tensor | None = None
        self._loop_mask: Tensor | None = None
        self._apply_sigmoid = True

    def weight(self, edge_index: Shaped[Tensor, "..."]) -> Float[Tensor, "edges"] | None:
        """The weight of every edge; None if nothing is being explained."""
        mask = self._edge_mask
        if mask is None or not self.explain:
            return None
        if mask.dim() != 1 or mask.size(0) != edge_index.size(1):
            raise ValueError(f"the edge mask is {kind_of(mask)}, expected one number for each of the {edge_index.size(1)} edges.")
        return mask.sigmoid() if self._apply_sigmoid else mask

    def reset_parameters(self) -> None:
        """There is nothing to reset."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)  # copies and unpickled objects skip that code, too

    def __repr__(self) -> str:
        return "EdgeMask()"
