"""Models of tensors: 2-IGN and PPGN."""

import pytest
import torch

import reign


@pytest.mark.parametrize("kind", [reign.nn.IGN2, reign.nn.PPGN])
def test_types_of_edges_reach_models_of_tensors(kind: type) -> None:
    torch.manual_seed(0)
    model = kind(3, 6, 2, 1, edge_encoder=4).eval()
    data = reign.testing.random_graphs(1, min_nodes=6, num_features=3)[0]
    types = torch.zeros(data.num_edges, 1, dtype=torch.long)
    plain, other = (model(data.x, data.edge_index, t) for t in (types, types + 3))
    assert (plain - other).abs().max() > 1e-6
