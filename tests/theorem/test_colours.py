"""The colour test of any list of terms, against a plain version with dictionaries, and what is known of it."""

from functools import cache
from itertools import islice

import networkx as nx
import pytest
import torch
from plain_colours import PlainBag, plain_bag, pool, refine
from torch_geometric.data import Data

import reign
from reign.bags import SubgraphBag
from reign.data import from_networkx
from reign.kernels.ragged import offsets
from reign.nn import TERMS
from reign.theory import colours, family, model_colours
from reign.theory._hashing import Hashing
from reign.theory._plan import plan_of_terms
from reign.theory._pools import POOLS
from reign.theory._trace import bag_of, trace

NODE_BASED = ["null", "nd", "nm", "nm+distance", "ego:1", "ego:2", "ego+:1", "ego+:2", "ego+distance:2"]
OTHERS = ["ed", "2-nd", "2-nm", "2-ego:1", "whole"]


def atlas(nodes: int) -> list[Data]:
    """All graphs of up to some nodes, with two kinds of features in the smallest ones."""
    return [from_networkx(g) for g in nx.graph_atlas_g() if 1 <= len(g) <= nodes]


def same_partition(ours: list[int], plain: list[object]) -> bool:
    return len(set(ours)) == len(set(plain)) == len(set(zip(ours, plain, strict=True)))


def refused(name: str, policy: str, domain: str, on: bool) -> bool:
    """Terms that need one subgraph per node, a root, or a root with a row."""
    chosen = reign.policy(policy)
    uses_root = on or name in ("root", "readout_strict", "root_msg", "local_others") or TERMS[name].node_based
    if uses_root and chosen.num_anchors > 1 or policy == "whole" and uses_root:
        return True
    if TERMS[name].node_based and not chosen.node_based:
        return True
    rootless = on or name in ("root", "node_root", "roots", "non_roots", "roots@Ak", "roots@A") or name.endswith("_strict")
    return policy == "nd" and domain == "members" and rootless


@cache
def bags(nodes: int, policy: str, domain: str) -> tuple[SubgraphBag, list[PlainBag], list[tuple[int, int, int]]]:
    """The bag of all small graphs, ours and plain, and (graph, subgraph, node) of each of its rows."""
    bag = bag_of(plan_of_terms(["own"], None, policy, domain, "flat", {}), atlas(nodes))  # type: ignore[arg-type]
    plains = [plain_bag(bag[g], domain) for g in range(bag.num_graphs)]
    first = offsets(torch.bincount(bag.sub_batch, minlength=bag.num_graphs))
    rows = (bag.pair_batch, bag.sub - first[bag.pair_batch], bag.node - bag.graph.ptr[bag.pair_batch])
    return bag, plains, list(zip(*(part.tolist() for part in rows), strict=True))


def compare(nodes: int, name: str, policy: str, domain: str, on: bool, rounds: int = 2) -> None:
    terms, root_terms = (["own", "local"], [name]) if on else ([name], None)
    bag, plains, rows = bags(nodes, policy, domain)
    plan = plan_of_terms(terms, root_terms, policy, domain, "flat", {})  # type: ignore[arg-type]
    ours = islice(trace(plan, bag, Hashing(), endless=True), rounds + 1)
    for (state, *_), plain in zip(ours, refine(plains, terms, root_terms, rounds), strict=True):  # noqa: B007
        assert same_partition(state[:, 0].tolist(), [plain[g][k, i] for g, k, i in rows]), (name, policy, domain, on)
    for pooling in ("flat", "nested", *(["roots"] if not refused("root", policy, domain, False) else [])):
        pooled = POOLS[pooling](state, bag, domain, Hashing())[:, 0]  # type: ignore[arg-type]
        assert same_partition(pooled.tolist(), [pool(b, c, pooling) for b, c in zip(plains, plain, strict=True)]), pooling


def check_all(name: str, nodes: int, policies: list[str]) -> None:
    for policy in policies:
        for domain in ("all", "members"):
            for on in (False, True):
                if refused(name, policy, domain, on):
                    with pytest.raises(ValueError, match="needs one subgraph per node|expected one root|leaves roots without"):
                        compare(nodes, name, policy, domain, on)
                else:
                    compare(nodes, name, policy, domain, on)


@pytest.mark.parametrize("name", TERMS)
def test_against_dictionaries(name: str) -> None:
    check_all(name, 4, ["nd", "nm", "ego+:1"])
    check_all(name, 3, NODE_BASED)
    check_all(name, 3, OTHERS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TERMS)
def test_against_dictionaries_on_all_graphs_of_6_nodes(name: str) -> None:
    check_all(name, 6, NODE_BASED)
    check_all(name, 5 if name == "needle_msg@agg" else 6, OTHERS)  # that term sums over all triples of subgraphs and neighbours
