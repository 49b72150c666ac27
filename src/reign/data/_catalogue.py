"""The data sets by name, as learning problems."""

from dataclasses import replace
from typing import Any

import torch

from reign.data._base import DATASETS, GraphDataset
from reign.data._pack import GraphPack
from reign.data._problem import Problem


def list_datasets() -> list[str]:
    """The names of all data sets, for ``load_problem``.

    >>> list_datasets()[:3]
    ['zinc', 'molhiv', 'tu']
    """
    return DATASETS.names()


def find_dataset(name: str) -> type[GraphDataset]:
    """Find a data set by name, in any common spelling."""
    return DATASETS[name]


def load_problem(name: str, **options: Any) -> Problem:
    """Load a data set by name as a problem: all splits and targets, and the encoders of the features.

    Args:
        name: one of ``list_datasets()``.
        options: options of the data set, and ``root``, its folder.
    """
    kind = find_dataset(name)
    made = {split: kind(split=split, **options) for split in kind.splits}
    packs = [dataset.pack() for dataset in made.values()]
    first = next(iter(made.values()))
    ends = torch.tensor([0, *(len(pack) for pack in packs)]).cumsum(0).tolist()
    splits = {split: torch.arange(ends[s], ends[s + 1]) for s, split in enumerate(kind.splits)}
    return Problem(
        name=kind.name,
        graphs=_join(packs),
        splits={"train": splits["all"]} if "all" in splits else splits,
        task=kind.task,
        targets=list(kind.targets),
        node_encoder=kind.node_encoder,
        edge_encoder=kind.edge_encoder,
        classes=list(first.classes),
    )


def _join(packs: list[GraphPack]) -> GraphPack:
    """Concatenate several packs."""
    first = packs[0]
    assert all(pack.y is not None for pack in packs)
    offset = {name: torch.tensor([0, *(int(getattr(p, name)[-1]) for p in packs)]).cumsum(0) for name in ("node_ptr", "edge_ptr")}

    def ptr(name: str) -> torch.Tensor:
        parts = [getattr(p, name)[(0 if i == 0 else 1) :] + offset[name][i] for i, p in enumerate(packs)]
        return torch.cat(parts)

    return replace(
        first,
        x=torch.cat([p.x for p in packs]),
        edge_index=torch.cat([p.edge_index for p in packs], dim=1),
        edge_attr=None if first.edge_attr is None else torch.cat([p.edge_attr for p in packs if p.edge_attr is not None]),
        y=torch.cat([p.y for p in packs if p.y is not None]),
        node_ptr=ptr("node_ptr"),
        edge_ptr=ptr("edge_ptr"),
    )
