"""How much is computed at a time: batches are split at a bound on their number of pairs, which is lowered if memory runs out."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import nn

from reign.bags import SMALL, free_memory, out_of_memory
from reign.data import GraphPack, Ids
from reign.train import batches
from reign.train.callbacks import Callback
from reign.train.distributed import most, several

T = TypeVar("T")
MANY = 10**9  # messages of a graph in a layer that take so long that this is said in advance
TOO_LARGE = "there is too little memory for this graph"


class GraphTooLarge(ValueError):
    """A graph that does not fit into memory, even alone.

    Args:
        message: what happened, and what to do about it.
        graph: its index in the data set.
        reason: why it does not fit.
    """

    def __init__(self, message: str, graph: int = -1, reason: str = "") -> None:
        super().__init__(message)
        self.graph, self.reason = graph, reason


def why_too_large(model: nn.Module, pairs: int, device: torch.device, training: bool = False) -> str | None:
    """The reason why a graph with this many pairs does not fit into memory, even alone; None if it fits or if this is not known in advance.

    Args:
        model: the model.
        pairs: number of pairs of the graph.
        device: the device whose memory counts.
        training: whether the model learns from the graph, or only predicts for it.
    """
    policy = getattr(model, "policy", None)
    if getattr(model, "domain", "all") == "members" and getattr(policy, "radius", None) is not None:
        return None  # the number of pairs is known only when the bag is made; the policy checks it then
    needed = pairs * batches.bytes_of_a_pair(model, training)
    if pairs < SMALL or needed <= (free := free_memory(device)):
        return None
    return f"which has {pairs:,} pairs (subgraph, node) (about {needed / 1e9:,.1f} GB, where {free / 1e9:,.1f} GB are free)"


class Budget:
    """A bound on the number of pairs (subgraph, node) that are processed together.

    Args:
        model: the model, whose policy determines the number of pairs of a graph.
        graphs: all graphs.
        device: the device whose memory counts.
        bound: the largest number of pairs; estimated from the free memory if not given.
        name: name of the graphs, for messages.
        callback: receives a note when batches are split.
        rows: the table rows of the graphs, for messages.
    """

    def __init__(
        self,
        model: nn.Module,
        graphs: GraphPack,
        device: torch.device,
        bound: int | None,
        name: str,
        callback: Callback,
        rows: Sequence[str] | None = None,
    ) -> None:
        self.model = model
        self.pairs = batches.pairs_of(model, graphs)
        self.device, self.name, self.callback, self.rows = device, name, callback, rows
        self._warn_of_work(graphs)
        self.guessed, self.split = bound is None, False
        self.bound = bound or batches.affordable_pairs(model, device)

    def _warn_of_work(self, graphs: GraphPack) -> None:
        """Give a note, before the work starts, if one graph alone takes very long."""
        if not len(graphs):
            return
        messages = self.pairs // graphs.sizes.cpu().clamp(min=1) * graphs.edge_ptr.diff().cpu()
        if int(messages.max()) > MANY:
            most = int(messages.argmax())
            where = f"Graph {most}" if self.rows is None else f"Row {self.rows[most]}"
            self.callback.note(
                f"{where} of {self.name} has up to {int(self.pairs[most]):,} pairs (subgraph, node), and up to {int(messages[most]):,} messages in each "
                "layer. This can take many minutes; use a policy with fewer or smaller subgraphs, or leave this graph out."
            )

    def together(self, ids: Ids) -> int:
        """The number of pairs of a batch that are processed together, or an upper bound of it."""
        return min(self.bound, int(self.pairs[ids].sum()))

    def parts(self, ids: Ids) -> list[Ids]:
        """Split a batch into parts within the bound."""
        found = batches.parts(ids, self.pairs, self.bound)
        self.split = self.split or len(found) > 1
        if self.split and self.guessed:
            self.guessed = False
            self.callback.note(
                f"The free memory is enough for about {self.bound:,} pairs (subgraph, node) at a time. Larger batches are split, and batch norms "
                "are computed for each part. Use a smaller train.batch_size to avoid this, or set train.max_pairs to split in the same way on "
                "every machine."
            )
        return found

    def equal_parts(self, ids: Ids) -> list[Ids]:
        """As ``parts``, with empty parts added so that all processes have the same number of parts."""
        found = self.parts(ids)
        return found + [ids[:0]] * (most(len(found)) - len(found))

    def within(self, work: Callable[[], T], ids: Ids, undo: Callable[[], None] = lambda: None) -> T:
        """Do some work on a batch. If memory runs out, undo the work and repeat it in smaller parts."""
        while True:
            try:
                return work()
            except (RuntimeError, MemoryError, ValueError) as error:
                if not out_of_memory(error):
                    raise
                reason = str(error).splitlines()[0]
            undo()
            self._lower(ids, reason)

    def check_alone(self, ids: Ids) -> None:
        """Raise ``GraphTooLarge`` in advance if the model cannot predict for the largest graph of a batch, even alone."""
        if ids.numel():
            largest = int(ids[self.pairs[ids].argmax()])
            if what := why_too_large(self.model, int(self.pairs[largest]), self.device):
                raise self._too_large(largest, what)

    def _too_large(self, graph: int, what: str) -> GraphTooLarge:
        where = f"graph {graph}" if self.rows is None else f"row {self.rows[graph]}"
        return GraphTooLarge(
            f"there is too little memory for {where} of {self.name} alone, {what}; use fewer hidden_channels or num_layers, a sampled policy such as "
            "'ego+:3@0.5' (for models without root terms), or leave this graph out.",
            graph,
            f"{TOO_LARGE}, {what}",
        )

    def _lower(self, ids: Ids, reason: str) -> None:
        if several():  # the other processes wait for this one, and cannot repeat the step
            raise ValueError(
                f"there is too little memory for a batch ({reason}); use a smaller train.batch_size or train.max_pairs."
            )
        pairs = self.pairs[ids]
        used, largest = min(self.bound, int(pairs.sum())), int(pairs.max())
        if used <= largest:
            raise self._too_large(int(ids[pairs.argmax()]), f"which has {largest:,} pairs (subgraph, node) ({reason})")
        self.bound, self.guessed = max(used // 2, largest), False
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.callback.note(
            f"There is too little memory for this batch ({reason}). From now on batches are split at {self.bound:,} pairs."
        )
