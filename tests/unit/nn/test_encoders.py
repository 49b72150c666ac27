"""Encoders of features that are types."""

import pytest
import torch
from torch import nn

from model_inputs import batch, run
from reign.nn import OGB_ATOM, OGB_BOND, SUN
from reign.nn._encoders import NormedNumbers, TypeEmbedding, make_encoder


@pytest.mark.filterwarnings("ignore:edge_attr was given")  # which is not what is tested here
def test_encoders_of_types() -> None:
    data = batch()
    data.x = torch.randint(0, 5, (data.num_nodes, 1))
    data.edge_attr = torch.randint(0, 3, (data.num_edges, 1))
    model = SUN(8, 6, 2, 2, node_encoder=5, edge_encoder=3)
    assert run(model, data).shape == (6, 2)
    data.x = torch.stack([torch.randint(0, size, (data.num_nodes,)) for size in OGB_ATOM], dim=1)
    data.edge_attr = torch.stack([torch.randint(0, size, (data.num_edges,)) for size in OGB_BOND], dim=1)
    assert run(SUN(8, 6, 2, 2, node_encoder="atom", edge_encoder="bond"), data).shape == (6, 2)
    with pytest.raises(ValueError, match="the encoder has 1 columns of types, got features of shape"):
        run(model, data)
    own = nn.Linear(9, 8)
    data.x = data.x.float()
    assert SUN(8, 6, 2, 2, node_encoder=own).node_encoder is own
    assert run(SUN(8, 6, 2, 2, node_encoder=lambda channels: nn.Linear(9, channels)), data).shape == (6, 2)


def test_types_out_of_range_are_named() -> None:
    data = batch()
    model = SUN(8, 6, 2, 2, node_encoder=5)
    with pytest.raises(ValueError, match="types in column 0 go from 7 to 7, expected 0 to 4"):
        model(torch.full((data.num_nodes, 1), 7), data.edge_index, batch=data.batch)
    with pytest.raises(ValueError, match="types must be whole numbers, got 0.5"):
        model(torch.full((data.num_nodes, 1), 0.5), data.edge_index, batch=data.batch)


def test_columns_of_types_are_summed() -> None:
    encoder = TypeEmbedding([5, 3], 4)
    first, second = (column.weight for column in encoder.columns)
    types = torch.tensor([[4, 0], [1, 2], [0, 0]])
    torch.testing.assert_close(encoder(types), torch.stack([first[4] + second[0], first[1] + second[2], first[0] + second[0]]))
    assert torch.equal(TypeEmbedding([5], 4)(torch.tensor([3, 3])).diff(dim=0), torch.zeros(1, 4))


def test_types_as_unit_vectors() -> None:
    data = batch()
    data.x = torch.randint(0, 8, (data.num_nodes, 1))
    data.edge_attr = torch.randint(0, 4, (data.num_edges, 1))
    model = SUN(8, 6, 2, 2, node_encoder="one-hot", edge_encoder=4).double().eval()
    assert torch.equal(model.encode(data.x), torch.eye(8, dtype=torch.float64)[data.x[:, 0]])
    assert not any("node_encoder" in key for key in model.state_dict())
    assert run(model, data).shape == (6, 2)
    with pytest.raises(ValueError, match="types in column 0 go from 8 to 8, expected 0 to 7"):
        model.encode(torch.full((3, 1), 8))
    with pytest.raises(ValueError, match="the encoder has 1 columns of types"):
        model.encode(torch.zeros(3, 2))


def test_numbers_with_a_norm() -> None:
    """ReLU of a normalised linear map; statistics come from the given rows, and the other rows become zero."""
    encoder = make_encoder("numbers:2", None, 3)
    assert isinstance(encoder, NormedNumbers)
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    for rows in (torch.ones(6, dtype=torch.bool), torch.tensor([True, True, True, True, False, False])):
        y = encoder.lin(x[rows])
        expected = ((y - y.mean(0)) * (y.var(0, correction=0) + encoder.norm.eps).rsqrt()).relu()
        torch.testing.assert_close(encoder(x, rows)[rows], expected)
        assert not encoder(x, rows)[~rows].any()
    data = batch()
    assert run(SUN(8, 6, 2, 2, node_encoder=f"numbers:{data.x.size(1)}"), data).shape == (6, 2)
    assert encoder(x.double()).dtype == torch.float32
    with pytest.raises(ValueError, match="edge_encoder is 'numbers:2', which is for nodes; .* as edge_dim"):
        SUN(8, 6, 2, 2, edge_encoder="numbers:2")
    for wrong in (x[:, :1], x.long()):
        with pytest.raises(ValueError, match=r"expected floating-point numbers of shape \(rows, 2\)"):
            encoder(wrong)
    for spec in ("numbers:0", "numbers:", "numbers"):
        with pytest.raises(ValueError, match=r"encoder is 'numbers:?0?', expected .* 'numbers:2', a module"):
            make_encoder(spec, None, 3)
