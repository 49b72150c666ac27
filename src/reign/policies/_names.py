"""Policies by name: ``[k-[set-]]name[+[single|distance[cap]]][:depth][@sample[+missing]]``, as in "nd", "ego+:3", "3-set-nd", "ego+distance:3@0.5+mean".

Also the sizes of the bags that all of them make of a graph.
"""

import time
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch_geometric.data import Data

from reign._validate import did_you_mean
from reign.policies._base import POLICIES, Missing, Policy, make, parse
from reign.policies._sampled import Sampled
from reign.policies._tuples import Tuples


def list_policies() -> list[str]:
    """One example name for each kind of policy. Depths can be any number from 1."""
    return list(policy_meanings())


def policy_meanings() -> dict[str, str]:
    """A one-line description of the subgraphs, for every name in ``list_policies``.

    >>> policy_meanings()["nd"]
    'the root loses its edges'
    """
    meanings: dict[str, str] = {}
    for name, kind in POLICIES.items():
        meanings |= {kind.example or name: kind.meaning, **kind.variants}
    return meanings


def policy(name: str | Policy) -> Policy:
    """Make a policy from its name. A policy is returned unchanged.

    >>> from reign.policies import EgoNets
    >>> policy("ego+:3") == EgoNets(num_hops=3, mark=True)
    True
    >>> policy("2-nm@0.5")
    Sampled(policy=Tuples(policy=NodeMarking(mark=True, max_distance=5), size=2, ordered=True), share=0.5, number=None, seed=0, eval_draws=None,
    missing=None)
    >>> policy("ego3")
    Traceback (most recent call last):
        ...
    ValueError: unknown policy 'ego3'; did you mean 'ego:3' or 'ego+:3'? Known: 'null', 'nd', 'nm', 'nm+distance', 'ego:3',
    'ego+:3', 'ego+distance:3', 'ed', '2-nd', '2-nm', '2-ego:2', '2-set-nd', '3-nm', 'central:2', 'whole'; add '@0.5' or '@8' for
    a random share or number of subgraphs.
    """
    if isinstance(name, Policy):
        return name
    if not isinstance(name, str):
        raise ValueError(f"policy is of type {type(name).__name__}, expected a name such as 'ego+:3' or a Policy.")
    part = parse(name)
    if part is None:
        raise ValueError(_unknown(name))
    named = make(name, part)
    if part["tuple"] and part["tuple"] != "1":  # 1-tuples and sets of one node are the nodes
        named = Tuples(named, int(part["tuple"]), not part["set"])
    missing = cast("Missing | None", part["missing"])
    return Sampled(named, **_sample(name, part["sample"]), missing=missing) if part["sample"] else named


def _sample(name: str, text: str) -> dict[str, Any]:
    try:
        return {"share": float(text)} if "." in text else {"number": int(text)}
    except ValueError:
        raise ValueError(f"'{name}' ends in '@{text}', expected a share such as '@0.5' or a number such as '@8'.") from None


def _unknown(name: str) -> str:
    hint = did_you_mean(name.strip(), list_policies(), number=2, cutoff=0.5)
    known = ", ".join(map(repr, list_policies()))
    return f"unknown policy '{name}'{hint} Known: {known}; add '@0.5' or '@8' for a random share or number of subgraphs."


# -- sizes --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BagSizes:
    """The size of a bag, and the time it took to make it.

    Args:
        policy: name of the policy.
        subgraphs: number of subgraphs.
        pairs: number of pairs (subgraph, node) that are stored.
        members: number of pairs whose node is in the subgraph.
        edges: number of undirected edges of all subgraphs.
        channels: number of channels of the features, marks included.
        seconds: time it took to make the bag.
    """

    policy: str
    subgraphs: int
    pairs: int
    members: int
    edges: int
    channels: int
    seconds: float


def bag_sizes(data: Data) -> list[BagSizes]:
    """The sizes of the bags of a graph, for every policy in ``list_policies``.

    >>> bags = {bag.policy: bag for bag in bag_sizes(example_graph())}
    >>> bags["nd"].subgraphs, bags["nd"].edges, bags["ed"].subgraphs, bags["nm"].channels
    (12, 130, 13, 3)
    """
    return [_size_of_bag(name, data) for name in list_policies()]


def _size_of_bag(name: str, data: Data) -> BagSizes:
    start = time.perf_counter()
    bag = policy(name).from_data(data)
    edges = bag.pair_edges.edge.numel() // 2
    seconds = time.perf_counter() - start
    return BagSizes(name, bag.num_subgraphs, bag.num_pairs, int(bag.member.sum()), edges, bag.x.size(1), seconds)


def example_graph() -> Data:
    """Naphthalene with a tail, as a graph: two fused 6-rings (nodes 0 to 9), and a chain of nodes 10 and 11 attached to node 4."""
    bonds = [(i, (i + 1) % 10) for i in range(10)] + [(0, 5), (4, 10), (10, 11)]
    edge_index = torch.tensor(bonds).t()
    return Data(x=torch.ones(12, 1), edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1))
