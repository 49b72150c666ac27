"""Sampled bags: a random selection of the subgraphs of any policy, to save time and memory."""

import copy
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from reign.bags import SharedGraph
from reign.kernels import ragged
from reign.policies._base import Missing, Policy, Wrapper


@dataclass
class Sampled(Wrapper):
    """A random share or number of the subgraphs of each graph, at least one.

    In training, new subgraphs are drawn at each call. In evaluation, all subgraphs are used, or with ``eval_draws`` the prediction is the
    mean over that many draws (see ``draws``). The draws of a graph do not depend on its batch. Calling the policy itself returns the
    first draw.

    Terms such as x[i, i] read subgraph i, which may not be in the sample. With ``missing="zero"`` they read zero there. With ``missing="mean"``
    they read the mean over the subgraphs in the sample: the mean of x[h, i] in place of x[i, i], and the mean of all readouts in place of one.
    With either, sums over subgraphs are scaled: the mean of such a sum over all samples is the sum over all subgraphs, for example (n / m) sum_h x[h, i]
    with m of n subgraphs. Without ``missing``, such terms raise an error, and sums are over the sample as it is.

    Args:
        policy: the policy whose subgraphs are sampled.
        share: the share of subgraphs to use, in (0, 1]; their number is rounded.
        number: the number of subgraphs to use, in place of a share; graphs with fewer subgraphs keep all.
        seed: seed of the random draws.
        eval_draws: number of draws to average in evaluation; None uses all subgraphs.
        missing: what terms read where a node has no subgraph, "zero" or "mean"; None for an error.
    """

    random: ClassVar[bool] = True
    policy: Policy
    share: float | None = None
    number: int | None = None
    seed: int = 0
    eval_draws: int | None = None
    missing: Missing | None = None
    training: bool = field(default=True, init=False, repr=False, compare=False)
    draw: int = field(default=0, init=False, repr=False, compare=False)  # the index of this policy among the ``eval_draws``

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("number", "seed", "eval_draws"):
            if getattr(self, name) is not None and type(getattr(self, name)) is not int:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected a whole number.")
        if (self.share is None) == (self.number is None):
            raise ValueError(f"share is {self.share} and number is {self.number}, expected exactly one of the two.")
        if self.share is not None and (not isinstance(self.share, int | float) or not 0 < self.share <= 1):
            raise ValueError(f"share is {self.share!r}, expected a number above 0 and at most 1; for a count use number=...")
        if self.number is not None and self.number < 1:
            raise ValueError(f"number is {self.number}, expected at least 1 subgraph per graph.")
        if self.eval_draws is not None and self.eval_draws < 1:
            raise ValueError(f"eval_draws is {self.eval_draws}, expected at least 1, or None for all subgraphs.")
        if self.missing not in (None, "zero", "mean"):
            raise ValueError(f"missing is {self.missing!r}, expected 'zero', 'mean' or None.")
        if self.missing and not self.policy.node_based:
            raise ValueError(
                f"missing is {self.missing!r}, but policy '{self.policy}' does not have one subgraph per node; use missing=None."
            )
        self.generator = torch.Generator().manual_seed(self.seed)

    @property
    def inner(self) -> Policy:
        """See ``Policy.inner``."""
        return self.policy

    @property
    def _sampling(self) -> bool:
        return self.training or self.eval_draws is not None

    @property
    def node_based(self) -> bool:
        """True only if all subgraphs of a node-based policy are used."""
        return not self._sampling and self.policy.node_based

    def draws(self) -> list[Policy]:
        """In training this policy; in evaluation one policy per draw, so that calls have no side effects and threads can share a model."""
        if self.training or self.eval_draws is None:
            return [self]
        return [self._at(draw) for draw in range(self.eval_draws)]

    def _at(self, draw: int) -> "Sampled":
        one = copy.copy(self)
        one.draw = draw
        return one

    def train(self, mode: bool = True) -> "Policy":
        """Switch between new draws at each call (training), and all subgraphs or fixed draws (evaluation)."""
        self.training = mode
        self.policy.train(mode)
        return self

    def anchors(self, graph: SharedGraph) -> tuple[Int[Tensor, "subgraphs anchors"], Int[Tensor, "subgraphs"]]:
        """The anchors of the drawn subgraphs."""
        anchor, sub_batch = self.policy.anchors(graph)
        if not self._sampling:
            return anchor, sub_batch
        available = torch.bincount(sub_batch, minlength=graph.num_graphs)
        first = ragged.offsets(available)[:-1]
        local = torch.arange(sub_batch.numel(), device=sub_batch.device) - first[sub_batch]
        # drawn on the CPU, so that all devices get the same subgraphs
        if self.training:
            score = torch.rand(sub_batch.numel(), generator=self.generator).to(sub_batch.device)
        else:
            score = self._fixed_scores(int(available.max()) if available.numel() else 0).to(sub_batch.device)[local]
        order = torch.argsort(score)
        order = order[torch.argsort(sub_batch[order], stable=True)]
        chosen = order[local < self._wanted(available)[sub_batch]]
        chosen = chosen.sort().values
        return anchor[chosen], sub_batch[chosen]

    def num_subgraphs(self, graph: SharedGraph) -> Int[Tensor, "graphs"]:
        """The number of subgraphs that are drawn for each graph."""
        available = self.policy.num_subgraphs(graph)
        return torch.minimum(available, self._wanted(available)) if self._sampling else available

    def _wanted(self, available: Int[Tensor, "graphs"]) -> Int[Tensor, "graphs"]:
        if self.number is not None:
            return torch.full_like(available, self.number)
        assert self.share is not None
        return (self.share * available).round().long().clamp(min=1)

    def _fixed_scores(self, size: int) -> Tensor:
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.draw) % 2**63)
        # a longer list starts with the same numbers as a shorter one
        blocks = [torch.rand(64, generator=generator) for _ in range(0, size, 64)]
        return torch.cat(blocks)[:size] if blocks else torch.empty(0)

    def __str__(self) -> str:
        if self.seed or self.eval_draws is not None:
            return repr(self)
        return (
            f"{self.policy}@{self.number if self.share is None else float(self.share)}{f'+{self.missing}' if self.missing else ''}"
        )
