"""The colour test of any list of terms, against a plain version with dictionaries, and what is known of it."""

import time
from functools import cache
from itertools import islice

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

import reign
from plain_colours import PlainBag, plain_bag, pool, refine, same_partition
from reign.bags import SubgraphBag
from reign.data import from_networkx
from reign.kernels.ragged import offsets
from reign.nn import TERMS
from reign.nn._terms import SAME
from reign.theory import Pair, colours, family, model_colours, separate
from reign.theory._algebra import Hashing
from reign.theory._plan import bag_of, plan_of_terms, trace
from reign.theory._rules import POOLS, ExactState

NODE_BASED = ["null", "nd", "nm", "nm+distance", "ego:1", "ego:2", "ego+:1", "ego+:2", "ego+distance:2"]
OTHERS = ["ed", "2-nd", "2-nm", "2-ego:1", "whole"]


def atlas(nodes: int) -> list[Data]:
    """All graphs of up to some nodes, with two kinds of features in the smallest ones."""
    return [from_networkx(g) for g in nx.graph_atlas_g() if 1 <= len(g) <= nodes]


def refused(name: str, policy: str, domain: str, on: bool) -> bool:
    """Terms that need one subgraph per node, a root, or a root with a row."""
    chosen = reign.policy(policy)
    uses_root = on or name in ("root", "own_root", "readout_strict", "root_msg", "local_others") or TERMS[name].node_based
    if (uses_root and chosen.num_anchors > 1) or (policy == "whole" and uses_root):
        return True
    if TERMS[name].node_based and not chosen.node_based:
        return True
    rootless = (
        on
        or name in ("root", "own_root", "node_root", "roots", "non_roots", "roots@Ak", "roots@A", "needle@Ai")
        or name.endswith("_strict")
    )
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
    for (state, *_), plain in zip(ours, refine(plains, terms, root_terms, rounds), strict=True):
        assert same_partition(state[:, 0].tolist(), [plain[g][k, i] for g, k, i in rows]), (name, policy, domain, on)
    for pooling in ("flat", "nested", *(["roots"] if not refused("root", policy, domain, False) else [])):
        pooled = POOLS[pooling](ExactState(state, bag, domain, Hashing()))[:, 0]  # type: ignore[arg-type]
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
    check_all(name, 3, ["nd", "nm", "ego:1", "ego+distance:2", "ed", "2-nm"])


@pytest.mark.parametrize("name", [name for name in TERMS if name not in SAME and "folklore" not in name])
def test_along_roots_against_dictionaries(name: str) -> None:
    for place, policy, domain in (
        ("1", "2-nm", "all"),
        ("2", "2-ego:1", "members"),
        ("*", "2-set-ego+:1", "all"),
        ("*", "ed", "all"),
    ):
        compare(4, f"{name}:{place}", policy, domain, on=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", TERMS)
def test_against_dictionaries_on_all_graphs_of_6_nodes(name: str) -> None:
    check_all(name, 6, NODE_BASED)
    check_all(name, 5 if name == "needle_msg@agg" else 6, OTHERS)  # that term sums over all triples of subgraphs and neighbours


def test_without_own_a_round_can_forget() -> None:
    """A node without neighbours: its feature is seen at the start, and by no sum over neighbours."""
    one = from_networkx(nx.disjoint_union(nx.path_graph(2), nx.empty_graph(1)))
    other = one.clone()
    one.x, other.x = torch.tensor([[1.0], [1.0], [5.0]]), torch.tensor([[1.0], [1.0], [6.0]])
    found = colours([one, other], ["local"], policy="whole")
    assert found.history[0, 0] != found.history[0, 1]
    assert found.separated(0, 1) is None
    assert colours([one, other], ["own", "local"], policy="whole").separated(0, 1) == 1


def test_without_own_partitions_can_go_round() -> None:
    """transpose alone swaps the colours of (k, i) and (i, k): there is no end but that a partition comes back."""
    path = from_networkx(nx.path_graph(4))
    path.x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    found = colours([path, path], ["transpose"], policy="null")
    assert found.rounds == 2
    assert found.separated(0, 1) is None


def test_flat_is_not_nested() -> None:
    """A multiset of multisets is finer than one multiset: the paper's DSS pools flat, and hashing inner sums would claim too much."""
    spiders = []
    for legs in ((2, 2, 1), (1, 1, 3)):  # trees with the same degrees
        graph = nx.Graph()
        for leg, length in enumerate(legs):
            nx.add_path(graph, ["centre", *((leg, step) for step in range(length))])
        spiders.append(from_networkx(graph))
    told = {
        pooling: colours(spiders, ["own", "local"], policy="nm", pooling=pooling).separated(0, 1) for pooling in ("flat", "nested")
    }
    assert told == {"flat": 2, "nested": 1}


def test_inner_sums_are_flat() -> None:
    """non_roots@Ak is one sum over (h, j): no network sees which j belong to which h, as a hash of the inner sums would."""
    terms = ["own", "non_roots@Ak"]
    plan = plan_of_terms(terms, None, "ego:1", "all", "flat", {})
    bag = bag_of(plan, atlas(5))
    plains = [plain_bag(bag[g], "all") for g in range(bag.num_graphs)]
    *_, ours = (state for state, *_ in islice(trace(plan, bag, Hashing(), endless=True), 2))
    flat, nested = (list(refine(plains, terms, None, 1, nested=how))[1] for how in (False, True))
    numbers = [len({c for graph in found for c in graph.values()}) for found in (flat, nested)]
    assert ours.unique().numel() == numbers[0] < numbers[1]


def test_means_are_proportions() -> None:
    """A mean sees shares, a sum numbers: one triangle and two."""
    one, two = from_networkx(nx.cycle_graph(3)), from_networkx(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)))
    assert colours([one, two], policy="whole").separated(0, 1) == 1
    assert model_colours([one, two], reign.nn.MPNN(1, 8, 2, 1)).separated(0, 1) is None
    assert model_colours([one, two], reign.nn.MPNN(1, 8, 2, 1, graph_pooling="sum")).separated(0, 1) == 1
    rings = [from_networkx(g) for g in (nx.cycle_graph(6), nx.complete_graph(6))]
    for how, told in (("sum", 1), ("mean", None)):  # all neighbours are alike, two of them or five
        assert colours(rings, ["own", "local"], policy="whole", aggregation={"local": how}).separated(0, 1) == told


def test_rounds_and_classes() -> None:
    (pair,) = family("decalin")
    found = colours([pair.one, pair.other, pair.one], ["own", "local"], policy="nm", pooling="nested")
    assert found.classes == [0, 1, 0]
    assert found.separated(0, 2) is None
    assert found.separated(0, 1) == 3
    short = colours([pair.one, pair.other], ["own", "local"], policy="nm", pooling="nested", rounds=2)
    assert (short.rounds, short.separated(0, 1)) == (2, None)
    for options, message in (
        ({"rounds": 0}, "rounds is 0"),
        ({"terms": "own"}, "terms are 'own', expected a list"),
        ({"terms": ["won"]}, "unknown term 'won'; did you mean"),
        ({"pooling": "mean"}, "pooling is 'mean', expected 'flat', 'nested', 'roots'"),
    ):
        with pytest.raises(ValueError, match=message):
            colours([pair.one], **options)  # type: ignore[arg-type]


def test_features_are_exact_numbers() -> None:
    ring = from_networkx(nx.cycle_graph(4))
    zero, minus, none, tiny = ring.clone(), ring.clone(), ring.clone(), ring.clone()
    zero.x, minus.x, none.x, none.num_nodes, tiny.x = torch.zeros(4, 1), -torch.zeros(4, 1), None, 4, torch.full((4, 1), 1e-30)
    assert colours([zero, minus, none, tiny], policy="nm").classes == [0, 0, 0, 1]


@pytest.mark.slow
def test_100_pairs_of_100_nodes_take_less_than_30_seconds() -> None:
    pairs = [
        Pair(str(seed), *(from_networkx(nx.random_regular_graph(4, 100, seed=2 * seed + side)) for side in (0, 1)))
        for seed in range(100)
    ]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for method in ("sun:nm", "reign2:nm"):
        start = time.process_time()
        verdicts = separate(pairs, wl=[method])
        assert time.process_time() - start < 30
        assert all(v.separated for v in verdicts)
    torch.set_num_threads(threads)
