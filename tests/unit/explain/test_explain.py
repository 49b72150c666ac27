"""Explanations: their parts sum up, left-out subgraphs are really left out, and what must score high does."""

import pytest
import torch
from torch_geometric.data import Batch, Data

import reign
from model_inputs import graph
from reign.explain import Attribution, attribute, deletion, without_nodes
from reign.explain._attribution import mean_of
from reign.nn import SUN
from reign.testing import random_graphs, random_permutation

MODELS = ["sun", "dss", "ngnn", "idgnn", "gnnak", "sswl", "ppgn", "mpnn"]


def model_of(name: str, **options: object) -> reign.nn.Model:
    torch.manual_seed(0)
    return reign.build_model(name, 3, 8, 2, 2, act="silu", **options).double().eval()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("level", ["input", "output"])
def test_scores_of_pairs_sum_up(name: str, level: str) -> None:
    data, model = graph(), model_of(name)
    found = attribute(model, data, output=1, steps=64, level=level)
    assert found.output == pytest.approx(model(data.x, data.edge_index)[0, 1].item())
    assert found.error < 0.02 * max(1.0, abs(found.output - found.nothing))
    assert float(found.nodes.sum()) == pytest.approx(float(found.pairs.sum()))
    assert "lift" not in vars(model)  # nothing of it stays
    assert "readout" not in vars(model)


def test_scores_of_edges_sum_up() -> None:
    data, model = graph(1), model_of("sun", policy="nm")
    found = attribute(model, data, steps=64)
    whole, none = (model(data.x, edges)[0, 0].item() for edges in (data.edge_index, data.edge_index[:, :0]))
    assert float(found.edges.sum()) == pytest.approx(whole - none, abs=0.02 * abs(whole - none) + 1e-6)
    i, j = data.edge_index[:, 0].tolist()
    assert found.bond(i, j) == found.bond(j, i) != 0


def test_a_linear_model_is_explained_exactly() -> None:
    """For f(x) = mean over pairs of w x[k, i] every score is known."""
    model = (
        reign.nn.SubgraphGNN(3, 5, 1, terms=["own"], transform="linear", policy="null", norm=None, act=None, out_channels=None)
        .double()
        .eval()
    )
    head = torch.nn.Linear(5, 1).double()
    model.out_channels, model.readout = 1, lambda state, ends: head(model.pooling(state))
    data = graph(2)
    found = attribute(model, data, steps=1, level="input")
    weight = (head.weight @ model.layers[0].terms[0].transform.weight)[0]
    n = data.num_nodes
    torch.testing.assert_close(found.pairs, (data.x @ weight).detach().expand(n, n) / n**2)
    torch.testing.assert_close(found.nodes, (data.x @ weight).detach() / n)
    torch.testing.assert_close(found.subgraphs, found.pairs.sum(1))  # here leaving out takes away just its part


def test_left_out_subgraphs() -> None:
    data, model = graph(3), model_of("sun", policy="ego+:1")
    found = attribute(model, data, level="input")
    bag = model.policy.from_data(data)
    for k in range(len(bag)):
        model.lift = lambda x, b, k=k: bag.lift(x) * (b.sub != k)[:, None]
        assert float(found.subgraphs[k]) == pytest.approx(found.output - model.predict(data.x, bag)[0, 0].item())
    del model.lift


@pytest.mark.parametrize("policy", ["ed", "nd", "whole", "nm@3"])
def test_every_policy(policy: str) -> None:
    data, model = graph(4), model_of("ds", policy=policy) if policy != "whole" else model_of("mpnn")
    found = attribute(model, data, steps=64)
    assert found.pairs.shape == (found.subgraphs.numel(), data.num_nodes)
    assert float(found.pairs.sum()) == pytest.approx(
        found.output - found.nothing, abs=0.02 * max(1.0, abs(found.output - found.nothing))
    )
    assert found.pairs.abs().max() > 0


def test_scores_move_with_the_nodes() -> None:
    data, model = graph(5), model_of("sun")
    perm = random_permutation([data.num_nodes], seed=1)
    moved = Data(x=torch.empty_like(data.x).index_copy_(0, perm, data.x), edge_index=perm[data.edge_index])
    torch.testing.assert_close(attribute(model, moved).nodes[perm], attribute(model, data).nodes)


def test_many_pairs_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = graph(6), model_of("sun")
    whole = attribute(model, data, steps=8)
    monkeypatch.setattr("reign.explain._attribution.AT_ONCE", 100)
    parts = attribute(model, data, steps=8)
    for name in ("pairs", "edges", "subgraphs"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name))


def test_what_cannot_be_explained() -> None:
    data = graph()
    with pytest.raises(ValueError, match="output is 2, expected 0 to 1"):
        attribute(model_of("sun"), data, output=2)
    with pytest.raises(ValueError, match="the model has task_level='node'"):
        attribute(model_of("sun", task_level="node"), data)


def test_mean_of_models() -> None:
    parts = [attribute(model_of("sun"), graph(7)), attribute(model_of("sun", policy="ego+:3"), graph(7), output=1)]
    found = mean_of(parts)
    assert isinstance(found, Attribution)
    torch.testing.assert_close(found.pairs, (parts[0].pairs + parts[1].pairs) / 2)
    assert found.output == pytest.approx((parts[0].output + parts[1].output) / 2)


def test_without_nodes() -> None:
    data = Data(x=torch.arange(4.0)[:, None], edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), edge_attr=torch.arange(4))
    found = without_nodes(data, torch.tensor([1]))
    assert found.x.flatten().tolist() == [0, 2, 3]
    assert found.edge_index.tolist() == [[1, 2], [2, 0]]
    assert found.edge_attr.tolist() == [2, 3]


def test_deletion_of_what_counts() -> None:
    """The prediction is the sum of features, and scores are the features: the largest change it most."""
    made = random_graphs(20, min_nodes=3, max_nodes=12, num_features=1, seed=0)
    found = deletion(lambda some: torch.stack([g.x.sum() for g in some]), made, [g.x[:, 0] for g in made], numbers=(1, 2))
    kept = sum(g.num_nodes >= 4 for g in made)
    assert {name: tuple(change.shape) for name, change in found.items()} == dict.fromkeys(
        ("largest", "random", "smallest"), (kept, 2)
    )
    assert (found["largest"][:, 0] >= found["random"][:, 0]).all()
    assert found["smallest"][:, 0].mean() < found["random"][:, 0].mean()


def test_nodes_in_cycles_score_higher() -> None:
    """A model that has learned to count squares by heart: nodes of the square have the highest scores, the tail lower ones."""
    torch.manual_seed(0)
    rings = []
    for tail in range(5):
        for size in (3, 4, 5):
            edges = [(i, (i + 1) % size) for i in range(size)] + [(size + t - 1 if t else 0, size + t) for t in range(tail)]
            pairs = torch.tensor(edges + [(j, i) for i, j in edges]).t()
            rings.append(
                Data(x=torch.ones(size + tail, 1), edge_index=pairs, y=torch.tensor([[float(size == 4) * 4 / (size + tail)]]))
            )
    model, batch = SUN(1, 16, 2, 1, policy="ego+:2", norm=None), Batch.from_data_list(rings)
    bag = model.policy.from_data(batch)
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        optimiser.zero_grad()
        loss = (model.predict(batch.x, bag) - batch.y).square().mean()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.02
    squares = [data for data in rings if data.y > 0 and data.num_nodes > 5]
    for data in squares:
        nodes = attribute(model, data).nodes  # all features are alike, so these are scores of what the pooling gets
        assert nodes[:4].mean() > nodes[4:].mean()
