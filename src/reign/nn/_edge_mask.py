"""Where PyG's explainers put their masks of edges."""

from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from reign._validate import kind_of


class EdgeMask(MessagePassing):  # type: ignore[misc]
    """Takes the mask that ``torch_geometric.explain`` sets on every message-passing layer; the model weighs its edges by it.

    It passes no messages itself, has no weights, and does nothing while there is no mask.
    """

    explain: bool | None = None  # a plain value, and not PyG's property, which prepares a layer that passes messages

    def __init__(self) -> None:
        nn.Module.__init__(self)  # none of the code that PyG generates for a layer is needed
        self._edge_mask: Tensor | None = None
        self._loop_mask: Tensor | None = None
        self._apply_sigmoid = True

    def weight(self, edge_index: Shaped[Tensor, "..."]) -> Float[Tensor, "edges"] | None:
        """The weight of every edge; None if nothing is being explained."""
        mask = self._edge_mask
        if mask is None or not self.explain:
            return None
        if mask.dim() != 1 or mask.size(0) != edge_index.size(1):
            raise ValueError(f"the mask of edges is {kind_of(mask)}, expected a number for each of the {edge_index.size(1)} edges.")
        return mask.sigmoid() if self._apply_sigmoid else mask

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)  # copies and pickles have none of that code either

    def __repr__(self) -> str:
        return "EdgeMask()"
