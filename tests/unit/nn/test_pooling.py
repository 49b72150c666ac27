"""From bags to graphs."""

import inspect

import pytest
import torch

import reign
from model_inputs import batch, run
from reign.nn import DS, TERMS, DeepSets, DiagonalPooling, IGNPooling, MeanPooling, NodePooling, RootPooling, State
from reign.nn._pooling import checked


def test_set_networks_of_several_widths() -> None:
    for invariance in ("early", "late"):
        assert run(DS(3, 6, 2, 2, set_channels=(8, 12), invariance=invariance), batch()).shape == (6, 2)
    with pytest.raises(ValueError, match="invariance is 'never', expected 'early' or 'late'"):
        inspect.unwrap(DeepSets.__init__)(DeepSets.__new__(DeepSets), 4, (8,), "never")


def test_phi_and_rho_have_widths_of_their_own() -> None:
    """By hand: rho of the mean of phi. Without widths of its own, rho has those of phi."""
    bag = reign.policy("nm").from_data(batch())
    state = State(torch.randn(bag.num_pairs, 4), bag)
    pool = DeepSets(4, (5, 6), rho=(7,))
    inner = torch.stack([state.h[bag.sub == k].mean(0) for k in range(bag.num_subgraphs)])
    for phi in pool.each:
        inner = torch.nn.functional.elu(phi(inner))
    means = torch.stack([inner[bag.sub_batch == graph].mean(0) for graph in range(6)])
    torch.testing.assert_close(pool(state), torch.nn.functional.elu(pool.mean[0](means)))
    assert (pool.out_channels, pool(state).shape) == (7, (6, 7))
    assert [tuple(map_.weight.shape) for map_ in DeepSets(4, (5, 6)).mean] == [(5, 6), (6, 5)]
    model = DS(3, 6, 2, 2, set_channels=(8, 12), rho_channels=(5,), head={"hidden": [3]})
    assert run(model, batch()).shape == (6, 2)
    assert sum(p.numel() for p in model.pooling.parameters()) == 7 * 8 + 9 * 12 + 13 * 5
    with pytest.raises(ValueError, match=r"the widths of rho are \[5\], but rho is part of early invariance; leave them out"):
        DS(3, 6, 2, 2, invariance="late", rho_channels=(5,))


def test_means_and_sums_by_the_formula() -> None:
    data = batch()
    bag = reign.policy("nm").from_data(data)
    h = torch.randn(bag.num_pairs, 4)
    for graph in range(6):
        mine = h[bag.pair_batch == graph]
        n = int(bag.graph.sizes[graph])
        assert len(mine) == n * n
        torch.testing.assert_close(MeanPooling(4)(State(h, bag))[graph], mine.mean(0))
        torch.testing.assert_close(MeanPooling(4, "sum", "sum")(State(h, bag))[graph], mine.sum(0))
        torch.testing.assert_close(MeanPooling(4, "sum")(State(h, bag))[graph], mine.sum(0) / n)
        roots = h[bag.root_row][bag.sub_batch == graph]
        torch.testing.assert_close(RootPooling(4)(State(h, bag))[graph], roots.mean(0))
        torch.testing.assert_close(RootPooling(4, "sum")(State(h, bag))[graph], roots.sum(0))
        torch.testing.assert_close(
            RootPooling(4, "sum", unit=True)(State(h, bag))[graph], (roots / roots.norm(dim=1, keepdim=True)).sum(0)
        )
        pool = IGNPooling(4)
        others = (mine.sum(0) - roots.sum(0)) / max(n * n - n, 1)
        torch.testing.assert_close(pool(State(h, bag))[graph], pool.roots(roots.mean(0)) + pool.others(others))
        apart = mine.view(n, n, 4)[~torch.eye(n, dtype=torch.bool)]
        torch.testing.assert_close(DiagonalPooling(4)(State(h, bag))[graph], torch.cat([roots.amax(0), apart.amax(0)]))
        torch.testing.assert_close(DiagonalPooling(4, "mean")(State(h, bag))[graph], torch.cat([roots.mean(0), others]))


def test_largest_values_where_there_are_none() -> None:
    """A single node has no pairs off the diagonal, and a graph without nodes has none at all."""
    bag = reign.policy("null")(torch.ones(2, 1), torch.empty(2, 0, dtype=torch.long), batch=torch.tensor([0, 2]), batch_size=3)
    h = torch.tensor([[-1.0], [-2.0]], requires_grad=True)
    out = DiagonalPooling(1)(State(h, bag))
    assert out.tolist() == [[-1, 0], [0, 0], [-2, 0]]
    out.sum().backward()
    assert h.grad is not None
    assert h.grad.tolist() == [[1], [1]]


def test_largest_values_among_members() -> None:
    data = batch()
    results = []
    for storage in ("all", "members"):
        bag = reign.policy("ego:1").from_data(data, domain=storage)
        h = -1 - torch.arange(bag.graph.num_nodes).float()[bag.node][:, None] - bag.sub[:, None]
        results.append(DiagonalPooling(1)(State(h, bag, "members")))
    assert torch.equal(*results)
    assert (results[0] <= 0).all()


def test_a_layer_from_pairs_to_nodes() -> None:
    data = batch()
    bag = reign.policy("nm").from_data(data)
    h = torch.randn(bag.num_pairs, 4)
    pool = NodePooling(4, ["own", "readout", "total"], 3, {"readout": "mean"})
    state = State(h, bag, "all", {"readout": "mean"})
    nodes = sum(map_(state.get(TERMS[name], "on")) for map_, name in zip(pool.maps, ("own", "readout", "total"), strict=True))
    torch.testing.assert_close(pool.nodes(State(h, bag)), nodes)
    assert pool(State(h, bag)).shape == (6, 3)
    torch.testing.assert_close(pool(State(h, bag))[0], nodes[bag.sub_batch == 0].sum(0))
    with pytest.raises(ValueError, match="pooling is 'min', expected 'max' or 'mean'"):
        inspect.unwrap(DiagonalPooling.__init__)(DiagonalPooling(4), 4, "min")  # past the checks of types


def test_node_vectors_by_the_formula() -> None:
    bag = reign.policy("nm").from_data(batch())
    h = torch.randn(bag.num_pairs, 4)
    for node in range(bag.num_nodes):
        torch.testing.assert_close(MeanPooling(4).nodes(State(h, bag))[node], h[bag.node == node].mean(0))
    assert torch.equal(RootPooling(4).nodes(State(h, bag)), h[bag.root_row])


def test_poolings_that_are_not_known() -> None:
    with pytest.raises(ValueError, match="pooling is 'max', expected 'sum' or 'mean'"):
        inspect.unwrap(checked)("max")
