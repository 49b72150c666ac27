"""Every policy against networkx, subgraph by subgraph, on random graphs of all kinds."""

import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

import reign
from reign.testing import assert_batch_invariant, assert_equivariant
from reign.transforms import AddHopDistance

NODE_BASED = ["null", "nd", "nm", "nm+single", "nm+distance", "ego:1", "ego:2", "ego+:3", "ego+single:2", "ego+distance:2"]
OTHERS = ["ed", "central:1", "central:3", "2-null", "2-nd", "2-nm", "2-nm+single", "2-ego:1", "2-ego+:2"]
OTHERS += [
    "2-ego+distance:1",
    "2-set-nd",
    "2-set-nm",
    "2-set-nm+single",
    "2-set-nm+distance",
    "2-set-ego+:1",
    "3-nm",
    "3-ego+:1",
    "3-set-nd",
    "3-set-ego:1",
]
NAMES = NODE_BASED + OTHERS


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 8) -> Data:
    """Any undirected graph: one node, no edges, isolated nodes and several components included."""
    n = draw(st.integers(1, max_nodes))
    possible = [(u, v) for u in range(n) for v in range(u + 1, n)]
    chosen = draw(st.lists(st.sampled_from(possible), unique=True)) if possible else []
    both = chosen + [(v, u) for u, v in chosen]
    edge_index = torch.tensor(draw(st.permutations(both)), dtype=torch.long).reshape(-1, 2).t()
    return Data(x=torch.arange(2.0 * n).view(n, 2), edge_index=edge_index, edge_attr=torch.arange(float(len(both)))[:, None])


def batches(max_nodes: int = 8) -> st.SearchStrategy[list[Data]]:
    return st.lists(graphs(max_nodes), min_size=1, max_size=4)


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(data=batches(max_nodes=6))
def test_policy_equals_networkx(name: str, domain: str, data: list[Data]) -> None:
    bag = reign.policy(name).from_data(Batch.from_data_list(data), domain=domain)
    k = 0
    for g, graph in enumerate(data):
        expected = oracle.bag(name, graph)
        assert int((bag.sub_batch == g).sum()) == len(expected)
        for anchor, subgraph in expected:
            ours = bag.subgraph(k)
            members = [i for i in range(graph.num_nodes) if i in subgraph]
            assert ours.root.view(-1).tolist() == list(anchor)
            assert ours.member.nonzero().flatten().tolist() == members
            both = sorted([*subgraph.edges, *((v, u) for u, v in subgraph.edges)])
            assert sorted(map(tuple, ours.edge_index.t().tolist())) == both
            original = dict(zip(map(tuple, graph.edge_index.t().tolist()), graph.edge_attr.flatten().tolist(), strict=True))
            assert ours.edge_attr.flatten().tolist() == [original[tuple(e)] for e in ours.edge_index.t().tolist()]
            rows = range(graph.num_nodes) if domain == "all" else members
            assert bag.node[bag.row_ptr[k] : bag.row_ptr[k + 1]].sub(int(bag.graph.ptr[g])).tolist() == list(rows)
            for i in range(graph.num_nodes):
                values = [*oracle.marks(name, graph, anchor, i, i in subgraph), *graph.x[i].tolist()]
                assert ours.x[i].tolist() == (values if i in rows else [0] * len(values))
            k += 1
    assert k == bag.num_subgraphs


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(data=batches(max_nodes=6), seed=st.integers(0, 2**32))
def test_bag_of_the_permuted_graph_is_the_permuted_bag(name: str, domain: str, data: list[Data], seed: int) -> None:
    policy = reign.policy(name)

    def make(*args: torch.Tensor, **kwargs: torch.Tensor) -> reign.SubgraphBag:
        return policy(*args, **kwargs, domain=domain)

    assert_batch_invariant(make, data)
    if max(graph.num_nodes for graph in data) > 1:
        assert_equivariant(make, Batch.from_data_list(data), seed=seed)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(data=graphs(max_nodes=6))
def test_dense_tensors_of_both_domains_agree(name: str, data: Data) -> None:
    policy = reign.policy(name)
    full, compact = policy.from_data(data).to_dense(), policy.from_data(data, domain="members").to_dense()
    assert torch.equal(full.A, compact.A)
    assert torch.equal(full.member, compact.member)
    assert torch.equal(full.x * full.member[..., None], compact.x)


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("name", [name for name in NAMES if "ego" in name or "distance" in name])
@settings(max_examples=15)
@given(data=batches(max_nodes=6))
def test_stored_hop_distances_give_the_same_bag(name: str, domain: str, data: list[Data]) -> None:
    policy = reign.policy(name)
    plain = policy.from_data(Batch.from_data_list(data), domain=domain)
    stored = policy.from_data(Batch.from_data_list([AddHopDistance()(graph) for graph in data]), domain=domain)
    reign.testing.assert_bags_equal(stored, plain)


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("name", NODE_BASED)
@settings(max_examples=15)
@given(data=batches())
def test_index_maps(name: str, domain: str, data: list[Data]) -> None:
    bag = reign.policy(name).from_data(Batch.from_data_list(data), domain=domain)
    rows = torch.arange(bag.num_pairs)
    assert torch.equal(bag.row(bag.sub, bag.node), rows)
    assert torch.equal(bag.pair_batch, bag.graph.batch[bag.node])
    swapped = bag.transpose
    assert torch.equal(bag.sub[swapped], bag.node)
    assert torch.equal(bag.node[swapped], bag.sub)
    assert torch.equal(swapped[swapped], rows)
    if name == "nd" and domain == "members":
        assert bag.root_row.eq(-1).all()
    else:
        assert torch.equal(bag.sub[bag.root_row], torch.arange(bag.num_nodes))
        assert torch.equal(bag.node[bag.root_row], bag.root)
