"""Learned vectors for the position of a node in a subgraph: embedded hop distances, labels, and resistance distances."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from reign._validate import check
from reign.bags import SubgraphBag
from reign.nn._encoders import lookup
from reign.nn._mlp import Resettable

LabelKind = Literal["hop", "spd"] | None


class PairLabels(Resettable):
    """A vector for the label of every pair (k, i), added to its values, or put in front of them.

    With ``kind="hop"`` the label is the hop distance d from the root k to node i, and its vector E[d]. With ``kind="spd"`` there are two
    labels, whose vectors are summed: d + 1, and again d + 1 if at least two neighbours of i lie one hop nearer to the root, 0 if not.
    A resistance distance r adds w r + b.

    Args:
        lifted: number of channels of the values.
        kind: "hop", "spd" or None (the resistance distance alone).
        max_distance: greater hop distances count as this one.
        channels: number of channels of vectors that are put in front of the values; with None, vectors are added to the values.
        far: whether unreachable nodes have their own label with "hop"; otherwise they count as ``max_distance`` hops away.
        resistance: whether to add the resistance distance from the root, inside the subgraph.
    """

    def __init__(
        self,
        lifted: int,
        *,
        kind: LabelKind = "hop",
        max_distance: int = 5,
        channels: int | None = None,
        far: bool = True,
        resistance: bool = False,
    ) -> None:
        super().__init__()
        check(
            "labels.kind",
            kind,
            kind in ("hop", "spd") or (kind is None and resistance),
            "'hop', 'spd', or None with resistance=True",
        )
        check("labels.max_distance", max_distance, type(max_distance) is int and max_distance >= 1, "a whole number of at least 1")
        good = channels is None or (type(channels) is int and channels >= 1)
        check("labels.channels", channels, good, "a whole number of at least 1, or None")
        self.kind, self.max_distance, self.in_front, self.far = kind, max_distance, channels is not None, far
        width = channels or lifted
        rows = max_distance + (1 if kind == "hop" and not far else 2)
        self.embedding = None if kind is None else nn.Embedding(rows, width)
        self.resistance = nn.Linear(1, width) if resistance else None
        self.out_channels = lifted + (width if self.in_front else 0)

    def forward(self, h: Float[Tensor, "pairs channels"], bag: SubgraphBag) -> Float[Tensor, "pairs out_channels"]:
        """The values with the vectors of their labels."""
        found: list[Tensor] = []
        if self.embedding is not None:
            found += [lookup(self.embedding.weight, label) for label in self.labels(bag)]
        if self.resistance is not None:
            found.append(self.resistance(bag.resistance.to(h.dtype)[:, None]))
        value = found[0] if len(found) == 1 else torch.stack(found).sum(0)
        return torch.cat([value, h], dim=1) if self.in_front else h + value

    def labels(self, bag: SubgraphBag) -> list[Int[Tensor, "pairs"]]:
        """The labels of the pairs of a bag, one column or two."""
        hops = bag.hops(self.max_distance)
        if self.kind == "hop":
            return [hops if self.far else hops.clamp(max=self.max_distance)]
        first = torch.where(hops > self.max_distance, 0, hops + 1)
        return [first, torch.where(bag.on_several_paths, first, 0)]

    def extra_repr(self) -> str:
        """What is embedded."""
        return f"{self.kind}, max_distance={self.max_distance}"
