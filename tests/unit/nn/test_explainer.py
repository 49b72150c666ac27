"""PyG's explainers on our models: masks of nodes and of edges."""

import copy
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer, GNNExplainer

import reign
from model_inputs import graph
from reign.nn import SUN, SubgraphGNN


@pytest.mark.parametrize("name", reign.list_models())
def test_a_weight_of_zero_is_no_message(name: str) -> None:
    """With weights 0 and 1 a model sees the graph that has only the edges of weight 1 (where policies do not look at edges)."""
    data = graph()
    options: dict[str, Any] = {"policy": "nm"} if reign.nn.find_model(name).takes_policy else {}
    options |= {"domain": "all"} if "domain" in reign.nn.find_model(name).option_names() else {}
    options |= {"walk_length": 0} if name == "ppgnrrwp" else {}  # encodings look at the graph as it is
    torch.manual_seed(0)
    model = reign.build_model(name, 3, 8, 2, 1, **options).double().eval()
    keep = torch.arange(data.num_edges) % 3 != 0
    policy = model.policy
    with torch.no_grad():
        part = model(data.x, data.edge_index[:, keep])
        whole = policy(data.x, data.edge_index, domain=model.domain)
        torch.testing.assert_close(model.predict(data.x, whole.weighted(keep.double())), part)
        torch.testing.assert_close(
            model.predict(data.x, whole.weighted(torch.ones_like(keep).double())), model(data.x, data.edge_index)
        )
        assert not torch.allclose(model(data.x, data.edge_index), part)


@pytest.mark.parametrize(
    "terms", [[t.name] for t in reign.list_terms() if "~" in t.formula] + [["own+local_others+root_msg"], ["needle+needle_msg@agg"]]
)
@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_every_local_term_has_weights(terms: list[str], aggregation: str) -> None:
    data = graph(1)
    how = {terms[0]: aggregation} if "+" not in terms[0] else None
    model = SubgraphGNN(3, 8, 1, 1, terms=["own", *terms], policy="nm", norm=None, aggregation=how).double().eval()
    bag = model.policy(data.x, data.edge_index)
    weight = torch.ones(data.num_edges, dtype=torch.float64, requires_grad=True)
    out = model.predict(data.x, bag.weighted(weight))
    torch.testing.assert_close(out, model.predict(data.x, bag))
    (gradient,) = torch.autograd.grad(out.sum(), weight)
    assert (gradient != 0).any()


@pytest.mark.parametrize("conv", ["gin", "gcn", "graphconv", "GATConv"])
@pytest.mark.parametrize("algorithm", [GNNExplainer(epochs=4)], ids=["gnn"])
def test_masks_of_nodes_and_edges(conv: str, algorithm: GNNExplainer) -> None:
    data = Batch.from_data_list([graph(2), graph(3)])
    model = SUN(3, 8, 2, 1, policy="ego+:2", conv=conv).double().eval()
    before = copy.deepcopy(model.state_dict())
    config = {"mode": "regression", "task_level": "graph", "return_type": "raw"}
    explainer = Explainer(
        model, algorithm, explanation_type="model", node_mask_type="attributes", edge_mask_type="object", model_config=config
    )  # fmt: skip
    found = explainer(data.x, data.edge_index, batch=data.batch)
    assert found.node_mask.shape == data.x.shape
    assert found.edge_mask.shape == (data.num_edges,)
    assert found.edge_mask.unique().numel() > 1
    assert list(model.state_dict()) == list(before)  # nothing of the explainer stays
    out = model(data.x, data.edge_index, None, data.batch)
    model.load_state_dict(before)
    assert torch.equal(out, model(data.x, data.edge_index, None, data.batch))


def test_edge_attributes_and_the_wrong_mask() -> None:
    data = graph(4)
    bonds = torch.randint(0, 3, (data.num_edges,))
    model = SUN(3, 8, 2, 1, policy="ego+:2", edge_encoder=3).double().eval()
    config = {"mode": "regression", "task_level": "graph", "return_type": "raw"}
    explainer = Explainer(model, GNNExplainer(epochs=3), explanation_type="model", edge_mask_type="object", model_config=config)
    assert explainer(data.x, data.edge_index, edge_attr=bonds).edge_mask.shape == (data.num_edges,)
    model = SUN(3, 8, 2, 1, policy="ego+:2", edge_encoder=3).double().eval()
    model.edge_mask.explain, model.edge_mask._edge_mask = True, torch.ones(3)
    with pytest.raises(ValueError, match="the edge mask is .* expected one number for each of the"):
        model(data.x, data.edge_index, bonds)
    with pytest.raises(ValueError, match="weight is .*, expected one floating-point number for each of the"):
        model.policy(data.x, data.edge_index).weighted(torch.ones(2))
