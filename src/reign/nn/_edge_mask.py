"""The place where PyG's explainers put their edge masks."""

from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from reign._validate import kind_of


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
