"""Hashes modulo 2^64, numbers modulo a prime, and sums of whole numbers."""

import pytest
import torch

import reign
from reign.kernels import Sum
from reign.nn import PPGNConv
from reign.theory._algebra import PRIME, Field, Hashing, inverse, mix, partition, rows, salt
from reign.theory._rules import rule_of


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 64, 101])
def test_inverses(size: int) -> None:
    x = torch.randint(0, PRIME, (size, 2), generator=torch.Generator().manual_seed(size))
    x[: size // 3] = 0
    found = inverse(x)
    assert found.shape == x.shape
    assert torch.equal(found * x % PRIME, (x != 0).long())
    assert (found[x == 0] == 0).all()


def test_whole_numbers_are_summed_exactly_modulo_2_to_the_64() -> None:
    rng = torch.Generator().manual_seed(0)
    source, target = torch.randint(0, 9, (40,), generator=rng), torch.randint(0, 7, (40,), generator=rng)
    x = torch.randint(-(2**63), 2**63 - 1, (9, 3), generator=rng)
    expected = torch.zeros(7, 3, dtype=torch.long).index_add_(0, target, x[source])  # wraps around
    assert torch.equal(Sum.build(source, target, 9, 7)(x), expected)
    plain = [sum(int(x[s, 0]) for s, t in zip(source.tolist(), target.tolist(), strict=True) if t == k) for k in range(7)]
    assert [int(v) % 2**64 for v in expected[:, 0]] == [v % 2**64 for v in plain]
    assert any(abs(v) >= 2**63 for v in plain)
    assert Sum.build(source[:0], target[:0], 9, 7)(x).tolist() == [[0] * 3] * 7


def test_mean_of_colours_are_proportions() -> None:
    colours = mix(torch.arange(3))[:, None]
    totals = torch.stack([colours[0] + colours[1], 6 * (colours[0] + colours[1]), 12 * colours[0], 5 * colours[2]])
    counts = torch.tensor([[2], [12], [12], [5]])
    a, b, c, d = Hashing().divide(totals, counts).flatten().tolist()
    assert a == b
    assert len({a, c, d}) == 3
    assert Field().divide(totals % PRIME, counts).shape == (4, 1)


def test_blocks_of_ppgn() -> None:
    """[h, mean over j of left[k, j] right[j, i]], with whole numbers of Python."""
    n, field = 4, Field()
    bag = reign.policy("null")(torch.ones(n, 1), torch.tensor([[0, 1], [1, 0]]))
    h = torch.randint(0, PRIME, (n * n, 2), generator=torch.Generator().manual_seed(0))
    left, right = (field.mlp(("key", side), h).view(n, n, 2).tolist() for side in ("left", "right"))
    product = [sum(left[k][j][c] * right[j][i][c] for j in range(n)) % PRIME for k in range(n) for i in range(n) for c in range(2)]
    mean = torch.tensor(product).view(n * n, 2) * pow(n, -1, PRIME) % PRIME
    ((out, ends),) = rule_of(PPGNConv(2, 2))(h, bag, field, ("key",), False)
    assert ends
    assert torch.equal(out, field.act(("key", "out"), field.linear(("key", "skip"), h, mean)))


def test_field_means_and_products() -> None:
    field, rng = Field(), torch.Generator().manual_seed(0)
    x, y = (torch.randint(0, PRIME, (5, 5, 2), generator=rng) for _ in range(2))
    expected = [
        [[sum(int(x[k, j, c]) * int(y[j, i, c]) for j in range(5)) % PRIME for c in range(2)] for i in range(5)] for k in range(5)
    ]
    assert field.product(x, y).tolist() == expected
    total = torch.tensor([[10, 3], [PRIME - 1, 0]])
    assert torch.equal(field.divide(total, torch.tensor([[5], [2]])) * torch.tensor([[5], [2]]) % PRIME, total)


@pytest.mark.parametrize("algebra", [Hashing(), Field(), Field(seed=1)])
def test_equal_rows_stay_equal_and_others_do_not(algebra: Hashing | Field) -> None:
    labels = torch.tensor([3, 5, 3, 9])
    x = algebra.embed(labels, "here")
    made = {
        "embed": x,
        "linear": algebra.linear(("a",), x, x.flip(0)[[3, 1, 3, 0]]),
        "mlp": algebra.mlp(("a",), x),
        "act": algebra.act(("a",), x),
        "scale": algebra.scale(("a",), x),
        "gate": algebra.gate(("a",), x, labels),
    }
    for name, out in made.items():
        assert torch.equal(out[0], out[2]), name
        assert len({tuple(row) for row in out.tolist()}) == 3, name
    assert not torch.equal(algebra.linear(("a",), x), algebra.linear(("b",), x))


def test_partitions() -> None:
    values = torch.tensor([[4], [7], [4], [1]])
    assert partition(values) == partition(torch.tensor([[1], [2], [1], [0]]))
    assert partition(values) != partition(torch.tensor([[4], [7], [7], [1]]))
    assert salt("a", 1) == salt("a", 1) != salt("a", 2)
    assert rows(torch.tensor([[0.0], [-0.0]]).double()).unique().numel() == 1
    assert (
        rows(torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]).double()).tolist()[::2]
        == [rows(torch.tensor([[1.0, 2.0]]).double()).item()] * 2
    )
    assert rows(torch.tensor([[1.0, 2.0], [2.0, 1.0]]).double()).unique().numel() == 2
