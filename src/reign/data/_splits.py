"""Splits of molecules. Equal molecules are always in the same split."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

Ids = Int[Tensor, "_"]
SPLITS = ("train", "val", "test")
WORDS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def random_split(keys: Sequence[Hashable], sizes: Sequence[float], seed: int) -> dict[str, Ids]:
    """Split items at random into shares. Items with equal keys stay together.

    >>> {split: ids.tolist() for split, ids in random_split("abcdeabcde", (0.6, 0.2, 0.2), 0).items()}
    {'train': [0, 1, 4, 5, 6, 9], 'val': [3, 8], 'test': [2, 7]}
    """
    return _fill(_shuffle(_groups(keys), seed), sizes, len(keys))


def scaffold_split(scaffolds: Sequence[Hashable], keys: Sequence[Hashable], sizes: Sequence[float], seed: int) -> dict[str, Ids]:
    """Split molecules by scaffold. Molecules with the same scaffold stay together; scaffolds larger than half a validation or test set
    go to training.

    A molecule without rings has no scaffold and is a group of its own.
    """
    groups = _groups([("ring", scaffold) if scaffold else ("none", key) for scaffold, key in zip(scaffolds, keys, strict=True)])
    limit = min((size for size in sizes[1:] if size > 0), default=1.0) * len(keys) / 2
    large = [group for group in groups if len(group) > limit]
    small = [group for group in groups if len(group) <= limit]
    return _fill(_shuffle(large, seed) + _shuffle(small, seed), sizes, len(keys))


def column_split(words: Sequence[str]) -> tuple[dict[str, Ids], dict[int, str]]:
    """The splits given by a column of words, and an error message for each item with an unknown word."""
    found = [WORDS.get(word.strip().lower()) for word in words]
    splits = {split: torch.tensor([i for i, f in enumerate(found) if f == split], dtype=torch.long) for split in SPLITS}
    wrong = {i: f"the split is {words[i]!r}, expected train, val or test" for i, f in enumerate(found) if f is None}
    return {split: ids for split, ids in splits.items() if ids.numel()}, wrong


def _groups(keys: Sequence[Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        groups[key].append(i)
    return list(groups.values())


def _shuffle(groups: list[list[int]], seed: int) -> list[list[int]]:
    return [groups[int(g)] for g in torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))]


def _fill(groups: list[list[int]], sizes: Sequence[float], number: int) -> dict[str, Ids]:
    """Assign each group to the first split with enough space for all of it, or else to the first split that is not full."""
    room = [size * number for size in sizes]
    parts: list[list[int]] = [[] for _ in sizes]
    for group in groups:
        fits = [s for s in range(len(sizes)) if len(parts[s]) + len(group) <= room[s] + 1e-9]
        open_ones = [s for s in range(len(sizes)) if len(parts[s]) < room[s] - 1e-9]
        parts[(fits or open_ones or [0])[0]] += group
    return {split: torch.tensor(sorted(part), dtype=torch.long) for split, part in zip(SPLITS, parts, strict=True) if part}
