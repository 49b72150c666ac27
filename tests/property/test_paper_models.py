"""The models by name against the formulas of the paper, written densely: forward and gradients, in evaluation and in training, in float64.

Lines are those of the paper's equations: eq. GNNAK and GNNAK-ctx, NestedGNN and IDGNN, and the set networks in the proof of Theorem 4.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reign
from model_inputs import randomised
from reign.nn import DS, DSS, GNNAK, IDGNN, NGNN, GNNAKctx, Model, SubgraphConv, todays_options

N, WIDTH = 6, 4
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 0, 5], [1, 0, 2, 3, 4, 1, 4, 0]])  # some of them one way only
Dense = Callable[[Any, Tensor], Tensor]


def parts_of(policy: str) -> tuple[Tensor, Tensor, Tensor]:
    """The members as V[k, i, 1], the adjacencies B[k, i, j] with the edges from j to i, and A[i, j] of the graph."""
    dense = reign.policy(policy)(torch.ones(N, 1, dtype=torch.float64), EDGES).to_dense()
    A = torch.zeros(N, N, dtype=torch.float64).index_put_((EDGES[1], EDGES[0]), torch.ones(1, dtype=torch.float64))
    return dense.member.double()[..., None], dense.A, A


def normed(norm: nn.Module, x: Tensor, rows: Tensor) -> Tensor:
    """Batch norm, in training with the mean and variance of the given rows."""
    seen = x[rows] if rows.dtype == torch.bool else x
    mean, var = (seen.mean(0), seen.var(0, unbiased=False)) if norm.training else (norm.running_mean, norm.running_var)
    return (x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias


def encoded(slot: Any, own: Tensor, summed: Tensor, rows: Tensor) -> Tensor:
    """GIN: an MLP with a norm inside, and one after it."""
    mlp = slot.encoder.mlp
    inside = normed(mlp.norm, mlp.lin1((1 + slot.encoder.eps) * own + summed), rows).relu()
    return normed(slot.norm, mlp.lin2(inside), rows)


def local(layer: SubgraphConv, X: Tensor, B: Tensor, V: Tensor) -> Tensor:
    """A layer of DS-GNN: message passing in every subgraph; values outside subgraphs are zero if V has zeros there."""
    (slot,) = layer.slots()
    return encoded(slot, X, torch.einsum("kij,kjd->kid", B, X), V[..., 0] == 1).relu() * V


def block(combine: Callable[[list[Tensor]], Tensor], context: bool, policy: str = "ego:1") -> Dense:
    def evaluate(model: Any, x: Tensor) -> Tensor:
        _, B, _ = parts_of(policy)
        X, everyone = x[None].expand(N, N, 3), torch.ones(N, N, 1, dtype=torch.float64)
        for layer in model.layers:
            for inner in layer.inner:
                X = local(inner, X, B, everyone)
            parts = [X.diagonal().t(), torch.einsum("ijd->id", X), *([torch.einsum("jid->id", X)] if context else [])]
            X = combine(parts)[None].expand(N, N, -1)
        return torch.einsum("hhd->d", X)

    return evaluate


def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts, dim=1)


def summed(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).sum(0)


def nested(model: Any, x: Tensor) -> Tensor:
    V, B, A = parts_of("ego:1")
    X = x[None].expand(N, N, 3) * V
    for layer in model.layers:
        X = local(layer, X, B, V)
    nodes = torch.einsum("jld->jd", X)
    for layer in model.pooling.layers:
        nodes = encoded(layer.slots()[0], nodes, A @ nodes, torch.ones(N, dtype=torch.bool)).relu()
    return nodes.sum(0)


def identified(model: Any, x: Tensor) -> Tensor:
    """Marks [1, 0] at roots and [0, 1] elsewhere, and messages of roots with their own weights."""
    V, B, _ = parts_of("ego+:2")
    root = torch.eye(N, dtype=torch.float64)[..., None]
    X = torch.cat([root, 1 - root, x[None].expand(N, N, 3)], dim=2) * V
    others = B * (1 - torch.eye(N, dtype=torch.float64))[:, None, :]  # j != k
    for layer in model.layers:
        (slot,) = layer.slots()
        messages = slot.encoder.mix[0](torch.einsum("kij,kjd->kid", others, X))
        messages = messages + slot.encoder.mix[1](torch.einsum("kik,kkd->kid", B, X))
        X = encoded(slot, X, messages, V[..., 0] == 1).relu() * V
    return torch.einsum("hhd->d", X)


def marked(model: Any, x: Tensor) -> Tensor:
    """One mark, at the root, and a set network that sums: psi(sum_k phi(sum_i x[k, i]))."""
    _, B, _ = parts_of("null")
    everyone = torch.ones(N, N, 1, dtype=torch.float64)
    X = torch.cat([torch.eye(N, dtype=torch.float64)[..., None], x[None].expand(N, N, 3)], dim=2)
    for layer in model.layers:
        X = local(layer, X, B, everyone)
    elu = nn.functional.elu
    subgraphs = torch.einsum("kid->kd", X)
    if model.pooling.invariance == "late":  # x^k <- sigma(W1 x^k + sum_h W2 x^h)
        for each, total in zip(model.pooling.each, model.pooling.mean, strict=True):
            subgraphs = elu(each(subgraphs) + total(subgraphs.sum(0)))
        return subgraphs.sum(0)
    out = elu(model.pooling.each[0](subgraphs)).sum(0)
    return elu(model.pooling.mean[0](out))


SETS = {"policy": "nm+single", "readout": "sum", "subgraphs": "sum", "set_channels": [5]}
CASES: dict[str, tuple[type[Model], dict[str, Any], Dense]] = {
    "gnn-ak": (GNNAK, {"policy": "ego:1"}, block(joined, False)),
    "gnn-ak, two inner layers": (GNNAK, {"policy": "ego:2", "inner_layers": 2}, block(joined, False, "ego:2")),
    "gnn-ak, sum": (GNNAK, {"policy": "ego:1", "combine": "sum"}, block(summed, False)),
    "gnn-ak-ctx": (GNNAKctx, {"policy": "ego:1"}, block(joined, True)),
    "gnn-ak-ctx, sum": (GNNAKctx, {"policy": "ego:1", "combine": "sum"}, block(summed, True)),
    "ngnn": (NGNN, {"policy": "ego:1", "outer_layers": 2}, nested),
    "id-gnn": (IDGNN, {}, identified),
    "ds, early sums": (DS, SETS, marked),
    "ds, late sums": (DS, {**SETS, "invariance": "late"}, marked),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_model_by_name_is_the_formula(case: str, training: bool) -> None:
    kind, options, dense = CASES[case]
    model = randomised(kind(3, WIDTH, 2, **options)).train(training)
    x = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    ours, expected = model(x, EDGES)[0], dense(model, x)
    torch.testing.assert_close(ours, expected, atol=1e-10, rtol=1e-10)
    weight = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    leaves = [x, *model.parameters()]
    for one, other in zip(
        *(torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True) for out in (ours, expected)), strict=True
    ):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_dss_sums_over_subgraphs() -> None:
    """Without a set network, the sum of all subgraphs is n times their mean."""
    x = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    mean, total = (randomised(DSS(3, WIDTH, 1, subgraphs=how)).eval()(x, EDGES) for how in ("mean", "sum"))
    torch.testing.assert_close(total, N * mean)


def test_means_the_linear_map_and_the_norm_are_options() -> None:
    """The models of the experiments: what these options give is tested with the blocks and poolings themselves."""
    model = GNNAKctx(3, WIDTH, 1, **todays_options(GNNAKctx, {}, 1))
    (layer,) = model.layers
    assert (layer.aggregation, layer.domain, model.domain, model.pooling.over_roots) == ("mean", "members", "members", "mean")
    assert (layer.mix.in_features, layer.mix.out_features, layer.norm.num_features) == (3 * WIDTH, WIDTH, WIDTH)
    assert isinstance(layer.act, nn.ReLU)
    assert (
        repr(GNNAKctx(3, WIDTH, 2))
        == "GNNAKctx(3 -> 4 x 2, policy='ego:3', terms=['own+local', 'node_root & node_readout & needle'])"
    )
    assert [layer.out_channels for layer in GNNAKctx(3, WIDTH, 2, widths=[2, 5]).layers] == [6, 15]
