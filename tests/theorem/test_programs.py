"""The primitives of the paper's 3-IGN programs, each on its own."""

import pytest
import torch

from reign.theory import Program, Step, orbits
from reign.theory._ign3_program import clip, gate, glue, keep, logical_and, mlp_copy, place, route, sum_glue

N, C = 4, 8


def cube(binary: bool = False) -> torch.Tensor:
    torch.manual_seed(0)
    x = torch.randn(N, N, N, C, dtype=torch.float64)
    return (x > 0).double() if binary else x


def on(orbit: str) -> torch.Tensor:
    from reign.theory import pool_broadcast

    return pool_broadcast(torch.ones(N, N, N, 1, dtype=torch.float64), f"{orbit}->{orbit}")[..., 0].bool()


def test_routing_and_concatenation() -> None:
    x = torch.arange(C, dtype=torch.float64)
    assert (route(C, (0, 4, 2)) @ x).tolist() == [0, 0, 0, 0, 0, 1, 0, 0]
    assert (keep(C, 1, 2) @ x).tolist() == [0, 0, 0, 3, 4, 5, 6, 7]
    a, b = torch.randn(2, C, dtype=torch.float64), torch.randn(3, C, dtype=torch.float64)
    torch.testing.assert_close(glue(a, b) @ x, torch.cat([a @ x, b @ x]))
    assert torch.allclose(sum_glue(a, a) @ torch.cat([x, 2 * x]), 3 * (a @ x))
    torch.testing.assert_close((place(C, a[:, :3], 5, 0) @ x)[:2], a[:, :3] @ x[5:])


@pytest.mark.parametrize("orbit", orbits(3))
def test_logical_and_is_exact_and_leaves_the_rest_alone(orbit: str) -> None:
    Y = cube(binary=True)
    out = logical_and(C, orbit, 0, 1, 2)(Y)
    expected = Y.clone()
    expected[on(orbit), 2] = (Y[..., 0] * Y[..., 1])[on(orbit)]
    assert torch.equal(out, expected)


def test_clipping() -> None:
    Y = cube().abs() * 2
    out = clip(C, "abb", 3)(Y)
    expected = Y.clone()
    expected[on("abb"), 3] = Y[on("abb"), 3].clamp(max=1)
    torch.testing.assert_close(out, expected)


def test_mlp_copy() -> None:
    Y = cube()
    w1, b1, w2, b2 = (torch.randn(s, dtype=torch.float64) for s in ((3, 2), (3,), (1, 3), (1,)))
    out = mlp_copy(C, "abc", [(w1, b1), (w2, b2)], source=0, target=2, scratch=4)(Y)
    expected = (w2 @ (w1 @ Y[0, 1, 2, :2] + b1).relu() + b2)[0]
    torch.testing.assert_close(out[0, 1, 2, 2], expected)
    assert torch.equal(out[..., :2], Y[..., :2])
    assert torch.equal(out[0, 1, 1], Y[0, 1, 1])


def test_the_gate_is_exact_to_the_last_bit() -> None:
    Y = cube()
    Y[..., 0] = (Y[..., 0] > 0).double()
    out = gate(C, "abc", closed=0, message=1, width=2, scratch=3, bound=1e6)(Y)
    closed = (Y[..., 0] == 1) & on("abc")
    assert torch.equal(out[closed][:, 1:3], torch.zeros(int(closed.sum()), 2, dtype=torch.float64))
    opened = (Y[..., 0] == 0) & on("abc")
    assert torch.equal(out[opened][:, 1:3], Y[opened][:, 1:3])


def test_choosing_where_relu_acts_costs_channels_only() -> None:
    step = Step(
        C, {"abb": [("abb->abb", torch.randn(C, C, dtype=torch.float64)), ("acc->abb", torch.randn(C, C, dtype=torch.float64))]}
    )
    step.bias["abb"], step.relu["abb"] = torch.randn(C, dtype=torch.float64), [1, 4]
    program = Program([step, step])
    torch.testing.assert_close(program.plain()(cube()), program(cube()))
    assert (step(cube())[on("abb")][:, [1, 4]] >= 0).all()
    assert (step(cube())[on("abb")][:, 0] < 0).any()
