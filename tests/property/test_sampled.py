"""Terms and models on sampled bags, by enumeration of all samples of small graphs."""

from itertools import combinations

import pytest
import torch
from test_terms import OFF, ON, graphs
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from reign.nn import MODELS, TERMS, DiagonalPooling, MeanPooling, NodePooling, RootPooling, State
from reign.nn._pooling import IGNPooling
from reign.policies import Policy, Sampled
from reign.testing import random_graphs

LOOKUPS = ["transpose", "node_root", "node_readout", "node_readout_strict", "node_readout@Ak", "node_readout@A"]
REFUSED = ["needle@Ai", "swap_local@Ai"]  # along the edges of subgraph i, which are not known if it is missing
SUMS = [name for name in TERMS if name not in LOOKUPS + REFUSED]
MISSING = ["zero", "mean"]


def sampled(policy: str, roots: list[int], missing: str) -> Policy:
    """The subgraphs of these nodes, as a sample."""
    made = Sampled(reign.policy(policy), number=1, missing=missing)
    made.anchors = lambda graph: (torch.tensor(roots)[:, None], graph.batch[torch.tensor(roots)])
    return made


def pair() -> list[Data]:
    """A graph whose samples are enumerated, and one of which all subgraphs are in the sample."""
    first, second = (random_graphs(1, min_nodes=n, max_nodes=n, edge_prob=0.6, dtype=torch.float64, seed=n)[0] for n in (5, 6))
    first.edge_index = torch.cat([first.edge_index, torch.tensor([[0, 2, 0], [0, 2, 1]])], dim=1)  # loops and a parallel edge
    return [first, second]


def samples(n: int, m: int, rest: int) -> list[list[int]]:
    return [[*chosen, *range(n, n + rest)] for chosen in combinations(range(n), m)]


def values_of(full: reign.SubgraphBag, bag: reign.SubgraphBag, h: Tensor) -> Tensor:
    """The values of the pairs of a sample."""
    return h[full.row(bag.root[bag.sub], bag.node)]


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize(("name", "m"), [(name, m) for name in SUMS for m in (1, 2, 3) if (name, m) != ("needle_msg@agg", 1)])
def test_the_mean_of_a_sum_over_all_samples_is_the_full_sum(name: str, m: int, domain: str) -> None:
    """A sum over two subgraphs (needle_msg@agg) needs samples of at least two."""
    data, term = pair(), TERMS[name]
    batch, n = Batch.from_data_list(data), data[0].num_nodes
    full = reign.policy("ego:1").from_data(batch, domain=domain)
    h = torch.randn(full.num_pairs, 2, dtype=torch.float64)
    for where in ("off", "on"):
        expected = State(h, full, domain).get(term, where)
        space = "subgraph" if where == "on" and (term.scope == "pair" or name in ON) else term.scope
        if where == "on" and space != "subgraph":
            continue  # the value of the node or the graph, looked up
        total, count = torch.zeros_like(expected), torch.zeros(len(expected), 1, dtype=torch.float64)
        for roots in samples(n, m, data[1].num_nodes):
            bag = sampled("ego:1", roots, "zero").from_data(batch, domain=domain)
            state = State(values_of(full, bag, h), bag, domain)
            rows = {
                "pair": full.row(bag.root[bag.sub], bag.node),
                "subgraph": bag.root,
                "node": torch.arange(bag.num_nodes),
                "graph": torch.arange(bag.num_graphs),
            }[space]
            total.index_add_(0, rows, state.get(term, where))
            count.index_add_(0, rows, torch.ones(len(rows), 1, dtype=torch.float64))
        if m == 1 and space in ("pair", "subgraph"):
            expected = _without_others(name, where, full, h, expected, n)
        torch.testing.assert_close(total / count, expected, atol=1e-12, rtol=1e-12)


def _without_others(name: str, where: str, full: reign.SubgraphBag, h: Tensor, expected: Tensor, n: int) -> Tensor:
    """With one subgraph in the sample, the part of other subgraphs of the first graph is zero: values of one subgraph at a time."""
    out = expected.clone()
    for k in range(n):
        h_k = h * ((full.sub == k) | (full.sub >= n))[:, None]
        mine = State(h_k, full, full.domain).get(TERMS[name], where)
        rows = full.sub == k if len(out) == full.num_pairs else torch.arange(len(out)) == k
        out[rows] = mine[rows]
    return out


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("name", LOOKUPS)
def test_a_missing_subgraph_reads_zero_or_the_mean_of_the_others(name: str, missing: str) -> None:
    data = pair()
    batch, n = Batch.from_data_list(data), data[0].num_nodes
    full = reign.policy("ego:1").from_data(batch)
    h = torch.randn(full.num_pairs, 2, dtype=torch.float64)
    for roots in samples(n, 2, data[1].num_nodes):
        bag = sampled("ego:1", roots, missing).from_data(batch)
        state = State(values_of(full, bag, h), bag)
        X, A = h[: n * n].view(n, n, 2).clone(), torch.zeros(n, n, dtype=torch.float64)
        A.index_put_((data[0].edge_index[1], data[0].edge_index[0]), torch.ones(1, dtype=torch.float64), accumulate=True)
        gone = [i for i in range(n) if i not in roots]
        X[gone] = X[roots[:2]].mean(0) if missing == "mean" else 0
        dense = full[0].to_dense()
        expected = OFF[name](X, A, dense.A, dense.member.to(X.dtype))
        first = bag.pair_batch == 0
        torch.testing.assert_close(state.spread(TERMS[name])[first].view(2, n, 2), expected[roots[:2]], atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(state.get(TERMS[name], "on")[:2], expected[roots[:2], roots[:2]], atol=1e-12, rtol=1e-12)


def test_among_members_means_are_over_the_subgraphs_that_a_node_is_in() -> None:
    """The path 0 - 1 - 2 - 3 and the ego nets of 0 and 1: node 3 is in neither."""
    path = Data(x=torch.zeros(4, 1), edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    for domain in ("all", "members"):
        bag = sampled("ego:1", [0, 1], "mean").from_data(path, domain=domain)
        h = (10 * bag.root[bag.sub] + bag.node + 1).double()[:, None]
        state = State(h, bag, "members")
        assert state.get(TERMS["node_root"]).flatten().tolist() == [1, 12, 13, 0]
        assert state.get(TERMS["node_readout"]).flatten().tolist() == [3, 36, 19.5, 19.5]


@pytest.mark.parametrize("name", REFUSED)
def test_terms_along_edges_of_a_missing_subgraph_are_refused(name: str) -> None:
    batch = Batch.from_data_list(pair())
    bag = sampled("ego+:2", [1, 3, 5], "mean").from_data(batch)
    for where in ("off", "on"):
        with pytest.raises(ValueError, match="needs one subgraph per node, got 3 for 11 nodes"):
            State(bag.lift(batch.x), bag).get(TERMS[name], where)


@pytest.mark.parametrize("storage", ["all", "members"])
@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("name", SUMS + LOOKUPS)
def test_sampled_terms_of_both_domains_agree(name: str, missing: str, storage: str) -> None:
    """Members alone, with either storage; and a bag with edge weights of 1."""
    batch = Batch.from_data_list(pair())
    roots = [1, 3, 5, 6, 8]
    full, bag = (sampled("ego+:2", roots, missing).from_data(batch, domain=d) for d in ("all", storage))
    h = torch.randn(full.num_pairs, 2, dtype=torch.float64)
    weighted = bag.weighted(torch.ones(batch.num_edges, dtype=torch.float64))
    for where in ("off", "on"):
        masked = State(h, full, "members").spread(TERMS[name], where)
        for other in (bag, weighted):
            stored = State(h if storage == "all" else h[full.wiring.member_rows], other, "members").spread(TERMS[name], where)
            rows = full.wiring.member_rows if where == "off" and storage == "members" else slice(None)
            torch.testing.assert_close(masked[rows], stored, atol=1e-12, rtol=1e-12)


NAMES = ["SUN", "ReIGN2", "NGNN", "GNNAK", "GNNAKctx", "GNNAKPlus", "SSWL", "LocalFolklore", "DSS", "DS", "IDGNN"]


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("name", NAMES)
def test_with_all_subgraphs_in_the_sample_a_model_is_the_same(name: str, missing: str) -> None:
    batch = Batch.from_data_list(graphs())
    policy = "ego+:2"
    torch.manual_seed(0)
    plain = MODELS[name](batch.x.size(1), 8, 2, 2, policy=policy).double()
    ours = MODELS[name](batch.x.size(1), 8, 2, 2, policy=Sampled(reign.policy(policy), number=9, missing=missing)).double()
    ours.load_state_dict(plain.state_dict())
    for mode in (True, False):
        torch.testing.assert_close(ours.train(mode)(batch), plain.train(mode)(batch), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("level", ["graph", "node", "edge"])
@pytest.mark.parametrize("name", NAMES)
def test_models_learn_from_samples(name: str, level: str, missing: str) -> None:
    batch = Batch.from_data_list(graphs())
    model = MODELS[name](batch.x.size(1), 8, 2, 2, policy=f"ego+:2@0.5+{missing}", task_level=level).double()
    one, two = model(batch), model(batch)
    assert one.shape == two.shape
    assert not torch.equal(one, two)
    one.square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters() if p.requires_grad)
    rows = {"graph": len(graphs()), "node": batch.num_nodes, "edge": batch.num_edges}[level]
    assert model.eval()(batch).shape == (rows, 2)


@pytest.mark.parametrize("name", ["SUN", "ReIGN2", "NGNN", "GNNAK"])
def test_evaluation_averages_draws(name: str) -> None:
    batch = Batch.from_data_list(graphs())
    policy = Sampled(reign.policy("ego+:2"), share=0.5, eval_draws=3, missing="mean")
    model = MODELS[name](batch.x.size(1), 8, 2, 2, policy=policy).double().eval()
    draws = [model.predict(batch.x, draw.from_data(batch, domain=model.domain)) for draw in model.policy.draws()]
    assert len(draws) == 3
    assert not torch.equal(draws[0], draws[1])
    torch.testing.assert_close(model(batch), sum(draws) / 3)


POOLINGS = {
    "mean": lambda c: MeanPooling(c, "sum", "sum"),
    "roots": lambda c: RootPooling(c, "sum"),
    "ign": lambda c: IGNPooling(c, "sum"),
}


@pytest.mark.parametrize("name", POOLINGS)
def test_sums_over_subgraphs_in_poolings_are_unbiased(name: str) -> None:
    data = pair()
    batch, n = Batch.from_data_list(data), data[0].num_nodes
    full = reign.policy("nm").from_data(batch)
    h, pool = torch.randn(full.num_pairs, 2, dtype=torch.float64), POOLINGS[name](2).double()
    drawn = []
    for roots in samples(n, 2, data[1].num_nodes):
        bag = sampled("nm", roots, "zero").from_data(batch)
        drawn.append(pool(State(values_of(full, bag, h), bag, "all")))
    torch.testing.assert_close(sum(drawn) / len(drawn), pool(State(h, full, "all")), atol=1e-12, rtol=1e-12)


def test_poolings_of_nodes_say_what_is_missing() -> None:
    batch = Batch.from_data_list(graphs()[:1])
    for missing, other in (("zero", [0.0, 0.0]), ("mean", [6.0, 8.0])):
        bag = sampled("nm", [0, 2], missing).from_data(batch)
        h = torch.where(bag.sub[:, None] == 0, torch.tensor([[4.0, 6.0]]), torch.tensor([[8.0, 10.0]])).double()
        state = State(h, bag, "all")
        assert RootPooling(2).nodes(state)[:3].tolist() == [[4, 6], [6.0, 8.0] if missing == "mean" else [0, 0], [8, 10]]
        assert bag.at_roots(state.root, "test")[:3].tolist() == [[4, 6], other, [8, 10]]
        pool = NodePooling(2, ["own"]).double()
        assert pool.nodes(state).shape == (batch.num_nodes, 2)
        assert DiagonalPooling(2)(state).shape == (1, 4)


def test_without_missing_the_error_says_what_to_do() -> None:
    batch = Batch.from_data_list(graphs())
    model = MODELS["SUN"](batch.x.size(1), 8, 1, 1, policy="nm@0.5").double()
    with pytest.raises(ValueError, match=r"or say what to read where a subgraph is missing, as in 'nm@0.5\+mean'"):
        model(batch)


def test_chosen_roots_are_no_random_sample() -> None:
    (data,) = random_graphs(1, min_nodes=5, max_nodes=5)
    policy = reign.policy("ego:2@0.5+mean").eval()
    with pytest.raises(ValueError, match="roots were given, but policy 'ego:2@0.5.mean' does not have one subgraph per node"):
        policy(data.x, data.edge_index, roots=torch.tensor([0, 2]))


@pytest.mark.parametrize(
    ("policy", "hint"),
    [("nm@2", r"or say what .* as in 'nm@0.5\+mean'"), ("2-nm@2", r"or 'ego\+:h'\."), ("central:2@1", r"or 'ego\+:h'\.")],
)
def test_errors_propose_what_is_possible(policy: str, hint: str) -> None:
    bag = reign.policy(policy).from_data(random_graphs(1, min_nodes=5, max_nodes=5)[0])
    with pytest.raises(ValueError, match=f"use 'nm', 'ego:h' .*{hint}"):
        State(bag.x, bag).get(TERMS["transpose"])
