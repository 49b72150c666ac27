"""Printed constructions of the paper that fail, beside the corrected ones (docs/theory.md). The formula is the judge."""

import pytest
import torch
from torch_geometric.data import Data

import reign
from reign.nn import TERMS, GNNAKctx, ReIGN2, State
from reign.testing import random_graphs
from reign.theory import Program, Step, implement, linear_options, pool_broadcast
from reign.theory import _ign3_layers as layer_programs
from reign.theory._ign3_layers import _ego_nets, lift, to_bag
from reign.theory._ign3_program import gate, keep
from reign.theory._linear_layers import reign2_layer, sun_layer, weights_of

EYE = torch.eye(3, dtype=torch.float64)


def graph(size: int = 6, features: int = 3) -> Data:
    return random_graphs(1, min_nodes=size, max_nodes=size, edge_prob=0.4, num_features=features, dtype=torch.float64, seed=3)[0]


def bag_and_values() -> tuple[reign.SubgraphBag, torch.Tensor]:
    torch.manual_seed(0)
    bag = reign.policy("ego:2").from_data(graph())
    return bag, torch.randn(bag.num_pairs, 3, dtype=torch.float64)


def test_gnn_ak_aggregation_as_one_sun_layer() -> None:
    """Printed: U0 = U3 = U5 = I off the diagonal; U3 reads the readout of k, where that of i is needed."""
    bag, h = bag_and_values()
    state = State(h, bag)
    needed = sum(state.get(TERMS[name]) for name in ("node_root", "node_readout", "needle"))[bag.node]
    terms = {"readout": EYE, "needle": EYE}
    printed = sun_layer({"node_root": EYE, **terms}, {"own": EYE, **terms}, None, "all")
    assert (printed(h, bag) - needed).abs().max() > 0.1
    first = sun_layer({"own": 0 * EYE}, {"own": EYE, **terms}, None, "all")
    second = sun_layer({"node_root": EYE}, {"own": EYE}, None, "all")
    torch.testing.assert_close(second(first(h, bag), bag), needed)


def test_sun_in_reign_with_u_plus_identity() -> None:
    """Printed: U2_r + I and U1 + I, where U2_r + U3_r and U1 + U3 are needed."""
    bag, h = bag_and_values()
    torch.manual_seed(0)
    layer = reign.nn.SUNConv(3, 3, transform="linear", conv="graphconv", needle="sum", norm=None).double()
    off, on = weights_of(layer), weights_of(layer, on=True)
    made = copy_of(layer)
    torch.testing.assert_close(run(made, h, bag), layer(h, bag))
    for wrong_on, wrong_off in ((True, False), (False, True)):
        made = copy_of(layer)
        slots = {s.name: s for s in (made[0].slots(on=True) if wrong_on else made[0].slots())}
        with torch.no_grad():
            if wrong_on:
                slots["own"].transform.weight[:3] = on["own"] + EYE
            if wrong_off:
                slots["root"].transform.weight[:3] = off["root"] + EYE
        assert (run(made, h, bag) - layer(h, bag)).abs().max() > 0.01


def copy_of(layer: torch.nn.Module) -> list[torch.nn.Module]:
    from reign.theory._linear_layers import to_reign2

    return to_reign2(layer)


def run(layers: list[torch.nn.Module], h: torch.Tensor, bag: reign.SubgraphBag) -> torch.Tensor:
    for layer in layers:
        h = layer(h, bag)
    return h


@pytest.mark.parametrize(("term", "right"), [("needle@Ak", "abb"), ("node_readout@Ak", "baa")])
def test_broadcasts_onto_links_out_of_roots(term: str, right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed for #2.off and #4.off: x[i, i] goes onto the links (k, i, k), where x[k, i] and x[i, k] are needed."""
    torch.manual_seed(0)
    data = graph(5, 2)
    model = ReIGN2(2, 2, 1, 2, policy="nm", terms=[term], root_terms=["own"], norm=None).double().eval()
    with torch.no_grad():
        expected = model(data.x, data.edge_index)
        torch.testing.assert_close(implement(model, "ign3", graphs=[data])(data.x, data.edge_index), expected)
        original = layer_programs.Step

        def printed(channels, maps=None, bias=None, relu=None):
            step = original(channels, maps or {}, bias or {}, relu or {})
            real = step.__class__.__call__

            class Printed(original):
                def __call__(self, Y):
                    for orbit, update in self.maps.items():
                        if orbit == "aba":
                            self.maps[orbit] = [(op.replace(f"{right}->aba", "bbb->aba"), m) for op, m in update]
                    return real(self, Y)

            step.__class__ = Printed
            return step

        monkeypatch.setattr(layer_programs, "Step", printed)
        wrong = implement(model, "ign3", graphs=[data])(data.x, data.edge_index)
    assert (wrong - expected).abs().max() > 1e-3


@pytest.mark.parametrize("hops", [2, 3, 4])
def test_ego_nets_without_clearing_the_scratch(hops: int) -> None:
    """Printed: channel 2 of the links is never cleared. The links are the right ones, but their values are 5, 13, 29 in place of 1."""
    path = Data(x=torch.ones(6, 1, dtype=torch.float64), edge_index=torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]))
    path.edge_index = torch.cat([path.edge_index, path.edge_index.flip(0)], dim=1)
    for data in [path, *random_graphs(4, min_nodes=6, max_nodes=8, edge_prob=0.3, num_features=1, dtype=torch.float64)]:
        bag = reign.policy(f"ego:{hops}").from_data(data).to_dense()
        right = to_bag(_ego_nets(4, 1, hops)(lift(data, 4, 0)), 1)
        assert torch.equal(right.A, bag.A)
        printed = to_bag(_ego_nets(4, 1, hops, clear=False)(lift(data, 4, 0)), 1)
        assert torch.equal(printed.member, bag.member)
        assert torch.equal(printed.A != 0, bag.A != 0)
        assert set(printed.A.unique().tolist()) <= {0, 1, 5, 13, 29}
        if data is path:
            assert printed.A.max() == {2: 5, 3: 13, 4: 29}[hops]


def test_a_gate_with_the_bound_as_a_bias_loses_digits() -> None:
    """relu(m + M a - M) is not m for a = 1: m + M is rounded. With c = 1 - a kept as a channel, as the gate has it, it is."""
    channels, M = 4, 1e9  # c, the message, and the two halves of the gate
    Y = torch.randn(4, 4, 4, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    Y[..., 0] = 0  # every link is open
    exact = gate(channels, "abc", closed=0, message=1, width=1, scratch=2, bound=M)(Y)
    links = pool_broadcast(torch.ones(4, 4, 4, 1, dtype=torch.float64), "abc->abc")[..., 0].bool()
    assert torch.equal(exact[links][:, 1], Y[links][:, 1])
    first, second = (keep(channels, *row) for row in ((2, 3), (1,)))
    first[2, 1], first[3, 1], first[2:, 0] = 1, -1, M  # channel 0 is a now, and the bound a bias
    second[1, 2], second[1, 3] = 1, -1
    Y[..., 0] = 1
    steps = [Step(channels, {"abc": [("abc->abc", first)]}, {"abc": {2: -M, 3: -M}}, {"abc": [2, 3]})]
    printed = Program([*steps, Step(channels, {"abc": [("abc->abc", second)]})])(Y)
    off = (printed[links][:, 1] - Y[links][:, 1]).abs().max()
    assert 1e-9 < off < 1e-6  # right but for the digits


def test_gnn_ak_ctx_reads_as_its_formula() -> None:
    """The corrected construction, as implement builds it."""
    torch.manual_seed(0)
    data = graph()
    model = GNNAKctx(3, 3, 1, 2, policy="ego:2", inner_layers=1, combine="sum", **linear_options(GNNAKctx)).double().eval()
    with torch.no_grad():
        torch.testing.assert_close(implement(model, "sun")(data.x, data.edge_index), model(data.x, data.edge_index))
    assert reign2_layer({"own": EYE}, {"own": EYE}, None, "all").in_channels == 3
