"""Encodings of pairs and nodes: structure of the graph that is added to x[k, i] before the first layer or before every layer."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reign._validate import check
from reign.bags import PerRow, SubgraphBag
from reign.nn._mlp import Resettable
from reign.nn._structure import OF_NODES, OF_PAIRS, Structure, parse
from reign.registry import Registry


class Encodings(Resettable):
    r"""Linear maps of encodings of the pair (k, i) and of the node i, which are added to x[k, i] or put in front of it.

    .. math:: x^k_i \leftarrow x^k_i + W p^k_i + V q_i

    The encodings are computed once for each bag, which caches them; in training, once for the data set.

    Args:
        widths: numbers of input channels of each layer.
        pairs: names of encodings of pairs, such as "rrwp:21"; see ``list_encodings``.
        nodes: names of encodings of nodes, such as "return:20".
        every_layer: whether they are added before every layer, with separate maps, or only before the first layer.
        channels: number of channels that are put in front of the values before the first layer; None: they are added to the values.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        pairs: Sequence[str] = (),
        nodes: Sequence[str] = (),
        every_layer: bool = False,
        channels: int | None = None,
    ) -> None:
        super().__init__()
        for what, names in (("pairs", pairs), ("nodes", nodes)):
            good = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
            check(f"encodings.{what}", names, good, "a list of names, such as ['rrwp:21']; see reign.nn.list_encodings()")
        check("encodings", {"pairs": pairs, "nodes": nodes}, bool(pairs or nodes), "at least one encoding of pairs or nodes")
        check("encodings.every_layer", every_layer, isinstance(every_layer, bool), "True or False")
        good = channels is None or (type(channels) is int and channels >= 1 and not every_layer)
        check("encodings.channels", channels, good, "a whole number of at least 1 without every_layer, or None")
        self.pairs, self.nodes, self.every_layer, self.in_front = list(pairs), list(nodes), every_layer, channels is not None
        outs = list(widths) if every_layer else [channels or widths[0]]
        self.of_pairs = _maps(self.pairs, OF_PAIRS, outs, True)
        self.of_nodes = _maps(self.nodes, OF_NODES, outs, not self.pairs)
        self.out_channels = widths[0] + (channels or 0)

    def forward(self, h: Float[Tensor, "pairs channels"], bag: SubgraphBag, layer: int = 0) -> Float[Tensor, "pairs out_channels"]:
        """Add the encodings to the input of a layer."""
        if layer and not self.every_layer:
            return h
        added: Tensor | None = None
        if self.pairs:
            added = self.of_pairs[layer](encoded(bag, self.pairs, OF_PAIRS, "pair", h.dtype))
        if self.nodes:
            nodes = bag.wiring.to_node.t(self.of_nodes[layer](encoded(bag, self.nodes, OF_NODES, "node", h.dtype)))
            added = nodes if added is None else added + nodes
        assert added is not None
        return torch.cat([added, h], dim=1) if self.in_front else h + added

    def extra_repr(self) -> str:
        """The names of the encodings."""
        return ", ".join([*self.pairs, *self.nodes]) + (", before every layer" if self.every_layer else "")


def encoded(
    bag: SubgraphBag, names: Sequence[str], known: Registry[Structure], rows: str, dtype: torch.dtype
) -> Float[Tensor, "rows channels"]:
    """The concatenated values of encodings, cached by the bag."""
    bag = bag.plain

    def make() -> PerRow:
        parts = [found.values(bag, size) for found, size in (parse(name, known) for name in names)]
        return PerRow(torch.cat(parts, dim=1).to(dtype), rows)

    return bag.keep(("encoding", rows, *names, str(dtype)), make).values


def _maps(names: Sequence[str], known: Registry[Structure], outs: Sequence[int], bias: bool) -> nn.ModuleList:
    width = sum(found.channels(size) for found, size in (parse(name, known) for name in names))
    return nn.ModuleList([nn.Linear(width, out, bias=bias) for out in outs] if names else [])


def list_encodings() -> dict[str, dict[str, str]]:
    """All encodings of pairs and of nodes, with their meanings.

    >>> list(list_encodings()["pairs"]), list(list_encodings()["nodes"])
    (['hop', 'rrwp', 'resistance', 'common', 'laplacian'], ['return', 'laplacian'])
    """
    known: dict[str, Registry[Any]] = {"pairs": OF_PAIRS, "nodes": OF_NODES}
    return {what: {name: entry.meaning for name, entry in registry.items()} for what, registry in known.items()}
