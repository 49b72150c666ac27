"""How much is computed at a time: parts of a batch with a bound on their number of pairs, lowered where memory is too small."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from reign.bags import SMALL, free_memory, out_of_memory
from reign.data import GraphPack, Ids
from reign.train import batches
from reign.train.callbacks import Callback
from reign.train.distributed import most, several

T = TypeVar("T")


class GraphTooLarge(ValueError):
    """A graph that does not fit into the memory, even alone.

    Args:
        graph: its number in the data set.
        reason: why it does not fit, in words.
        message: what to do about it.
    """

    def __init__(self, graph: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.graph, self.reason = graph, reason


class Budget:
    """A bound on the pairs (subgraph, node) that are computed together.

    Args:
        model: the model, whose policy decides the number of pairs of a graph.
        graphs: all graphs.
        device: the device whose memory counts.
        bound: the largest number of pairs; guessed from the free memory if not given.
        name: name of the graphs, for messages.
        callback: is told when batches are split.
    """

    def __init__(
        self, model: nn.Module, graphs: GraphPack, device: torch.device, bound: int | None, name: str, callback: Callback
    ) -> None:
        self.model = model
        self.pairs = batches.pairs_of(model, graphs)
        self.device, self.name, self.callback = device, name, callback
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
        policy = getattr(self.model, "policy", None)
        bounded = getattr(self.model, "domain", "all") == "members" and getattr(policy, "radius", None) is not None
        if not ids.numel() or bounded:  # then the number of pairs is only known when the bag is made, which checks it
            return
        largest = int(ids[self.pairs[ids].argmax()])
        pairs = int(self.pairs[largest])
        if pairs >= SMALL and (needed := pairs * batches.bytes_of_a_pair(self.model)) > (free := free_memory(self.device)):
            reason = f"about {needed / 1e9:,.1f} GB, where {free / 1e9:,.1f} GB are free"
            raise self._too_large(largest, pairs, reason)

    def _too_large(self, graph: int, pairs: int, reason: str) -> GraphTooLarge:
        what = f"which has {pairs:,} pairs (subgraph, node) ({reason})"
        return GraphTooLarge(
            graph,
            f"memory is too small for this graph, {what}",
            f"memory is too small for graph {graph} of {self.name} alone, {what}; use fewer hidden_channels or num_layers, a sampled policy as "
            "'ego+:3@0.5' (models without terms of roots), or leave the graph out.",
        )

    def _lower(self, ids: Ids, reason: str) -> None:
        if several():  # the others wait for this process, and cannot start the step again
            raise ValueError(f"memory is too small for a batch ({reason}); use a smaller train.batch_size or train.max_pairs.")
        pairs = self.pairs[ids]
        used, largest = min(self.bound, int(pairs.sum())), int(pairs.max())
        if used <= largest:
            raise self._too_large(int(ids[pairs.argmax()]), largest, reason)
        self.bound, self.guessed = max(used // 2, largest), False
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.callback.note(f"Memory is too small for this batch; from now on batches are split at {self.bound:,} pairs ({reason}).")
