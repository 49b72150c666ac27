"""Linear equivariant layers: as many as there should be, all equivariant, all independent."""

from itertools import product

import pytest
import torch
from torch_geometric.data import Batch

from reign.testing import assert_batch_invariant, assert_equivariant, random_graphs, random_permutation
from reign.theory import IGN, IGNLinear, basis, orbits, pool_broadcast

BELL = {2: 2, 3: 5, 4: 15, 5: 52, 6: 203}
ORDERS = [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (3, 3)]


@pytest.mark.parametrize(("k", "m"), ORDERS)
def test_basis_has_the_size_of_a_bell_number(k: int, m: int) -> None:
    n = k + m
    patterns = {tuple(t.index(v) for v in t) for t in product(range(n), repeat=n)}  # orbits of [n]^(k + m), by brute force
    assert len(basis(k, m)) == len(set(basis(k, m))) == len(patterns) == BELL[n]


@pytest.mark.parametrize(("k", "m"), ORDERS)
def test_basis_is_independent_and_equivariant(k: int, m: int) -> None:
    n = k + m
    units = torch.eye(n**k, dtype=torch.float64).view([n] * k + [n**k])
    maps = torch.stack([pool_broadcast(units, op).flatten() for op in basis(k, m)])
    assert torch.linalg.matrix_rank(maps @ maps.t()) == len(basis(k, m))
    perm = random_permutation(n)
    x = torch.randn([n] * k + [1], dtype=torch.float64)

    def moved(y: torch.Tensor, order: int) -> torch.Tensor:
        for axis in range(order):
            y = torch.zeros_like(y).index_copy_(axis, perm, y)
        return y

    for op in basis(k, m):
        torch.testing.assert_close(pool_broadcast(moved(x, k), op), moved(pool_broadcast(x, op), m))


@pytest.mark.parametrize(("k", "m", "bell"), [(3, 4, 877), (4, 3, 877), (4, 4, 4140), (0, 7, 877), (0, 0, 1)])
def test_bases_of_higher_orders(k: int, m: int, bell: int) -> None:
    """Every map is one partition of all indices, and every partition is one map."""
    letters = [op.replace("->", "") for op in basis(k, m)]
    assert all(len(op) == k + m for op in letters)
    assert len({tuple(op.index(letter) for letter in op) for op in letters}) == len(letters) == bell


def test_maps_between_orders_3_and_4() -> None:
    x, perm = torch.randn(5, 5, 5, 1, dtype=torch.float64), random_permutation(5)
    for op in (*basis(3, 4)[::97], *basis(4, 3)[::97]):
        start = x if op.index("-") == 3 else torch.einsum("abcz,dbaz->abcdz", x, x)
        moved = start[tuple(torch.meshgrid(*[perm] * (start.dim() - 1), indexing="ij"))]
        out = pool_broadcast(start, op)
        torch.testing.assert_close(pool_broadcast(moved, op), out[tuple(torch.meshgrid(*[perm] * (out.dim() - 1), indexing="ij"))])


@pytest.mark.parametrize("orders", [(6, 5), (-1, 2)])
def test_orders_without_a_basis(orders: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="orders are .*, expected whole numbers from 0 whose sum is at most 10"):
        basis(*orders)


def test_the_five_orbits() -> None:
    assert orbits(3) == ("aaa", "aab", "aba", "abb", "abc")
    x = torch.randn(4, 4, 4, 2)
    parts = [pool_broadcast(x, f"{o}->{o}") for o in orbits(3)]
    torch.testing.assert_close(sum(parts), x)


@pytest.mark.parametrize("orders", [(2, 2, 2), (2, 2, 1), (2, 3, 3)])
def test_networks_are_invariant_and_learn(orders: tuple[int, ...]) -> None:
    graphs = random_graphs(3, min_nodes=3, max_nodes=5, num_features=2)
    torch.manual_seed(0)
    batch, target = Batch.from_data_list(graphs), torch.randn(3, 1)
    model = IGN(2, 8, 1, orders)
    assert_equivariant(model, batch)
    assert_batch_invariant(model, graphs)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    first = None
    for _ in range(15):
        loss = (model(batch.x, batch.edge_index, batch=batch.batch) - target).pow(2).mean()
        first = float(loss.detach()) if first is None else first
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.9 * first
    assert all(p.grad is not None for p in model.parameters())


def test_wrong_orders() -> None:
    with pytest.raises(ValueError, match="orders are \\(3, 3\\), expected 2 followed by"):
        IGN(1, 4, 1, (3, 3))
    assert IGNLinear(2, 2, 1, 1).weight.shape == (15, 1, 1)
