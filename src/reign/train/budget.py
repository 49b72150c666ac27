"""How much is computed at a time: parts of a batch with a bound on their number of pairs, lowered where memory is too small."""

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
TOO_LARGE = "memory is too small for this graph"


class GraphTooLarge(ValueError):
    """A graph that does not fit into the memory, even alone.

    Args:
        message: what happened, and what to do about it.
        graph: its number in the data set.
        reason: why it does not fit, in words.
    """

    def __init__(self, message: str, graph: int = -1, reason: str = "") -> None:
        super().__init__(message)
        self.graph, self.reason = graph, reason


def why_too_large(model: nn.Module, pairs: int, device: torch.device, training: bool = False) -> str | None:
    """The reason why a graph with so many pairs does not fit into the memory, even alone; None if it fits, or if only trying can tell.

    Args:
        model: the model.
        pairs: number of pairs of the graph.
        device: the device whose memory counts.
        training: whether the model is to learn from the graph, or only to predict for it.
    """
    policy = getattr(model, "policy", None)
    if getattr(model, "domain", "all") == "members" and getattr(policy, "radius", None) is not None:
        return None  # the number of pairs is only known when the bag is made, which checks it
    needed = pairs * batches.bytes_of_a_pair(model, training)
    if pairs < SMALL or needed <= (free := free_memory(device)):
        return None
    return f"which has {pairs:,} pairs (subgraph, node) (about {needed / 1e9:,.1f} GB, where {free / 1e9:,.1f} GB are free)"


class Budget:
    """A bound on the pairs (subgraph, node) that are computed together.

    Args:
        model: the model, whose policy decides the number of pairs of a graph.
        graphs: all graphs.
        device: the device whose memory counts.
        bound: the largest number of pairs; guessed from the free memory if not given.
        name: name of the graphs, for messages.
        callback: is told when batches are split.
        rows: the rows of a table that the graphs stand in, for messages.
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
        self.guessed, self.split = bound is None, False
        self.bound = bound or batches.affordable_pairs(model, device)

    def parts(self, ids: Ids) -> list[Ids]:
        """A batch in parts within the bound."""
        found = batches.parts(ids, self.pairs, self.bound)
        self.split = self.split or len(found) > 1
        if self.split and self.guessed:
            self.guessed = False
            self.callback.note(
                f"The free memory is enough for about {self.bound:,} pairs (subgraph, node) at a time. Batches with more pairs are split, and batch "
                "norms see the parts; use a smaller train.batch_size, or set train.max_pairs to have the same on any machine."
            )
        return found

    def equal_parts(self, ids: Ids) -> list[Ids]:
        """The same, filled up with empty parts until all processes have the same number."""
        found = self.parts(ids)
        return found + [ids[:0]] * (most(len(found)) - len(found))

    def within(self, work: Callable[[], T], ids: Ids, undo: Callable[[], None] = lambda: None) -> T:
        """Do some work on a batch. Where memory is too small, undo what was done, and do it again in smaller parts."""
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
        """Raise ``GraphTooLarge`` for the largest graph of a batch if the model cannot predict for it alone, before it is tried."""
        if ids.numel():
            largest = int(ids[self.pairs[ids].argmax()])
            if what := why_too_large(self.model, int(self.pairs[largest]), self.device):
                raise self._too_large(largest, what)

    def _too_large(self, graph: int, what: str) -> GraphTooLarge:
        where = f"graph {graph}" if self.rows is None else f"row {self.rows[graph]}"
        return GraphTooLarge(
            f"memory is too small for {where} of {self.name} alone, {what}; use fewer hidden_channels or num_layers, a sampled policy as "
            "'ego+:3@0.5' (models without terms of roots), or leave it out.",
            graph,
            f"{TOO_LARGE}, {what}",
        )

    def _lower(self, ids: Ids, reason: str) -> None:
        if several():  # the others wait for this process, and cannot start the step again
            raise ValueError(f"memory is too small for a batch ({reason}); use a smaller train.batch_size or train.max_pairs.")
        pairs = self.pairs[ids]
        used, largest = min(self.bound, int(pairs.sum())), int(pairs.max())
        if used <= largest:
            raise self._too_large(int(ids[pairs.argmax()]), f"which has {largest:,} pairs (subgraph, node) ({reason})")
        self.bound, self.guessed = max(used // 2, largest), False
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.callback.note(f"Memory is too small for this batch; from now on batches are split at {self.bound:,} pairs ({reason}).")
