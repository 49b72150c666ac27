"""Every lemma, theorem, proposition and corollary of the paper's main text, on random graphs and random weights."""

import copy
from functools import partial

import pytest
import torch
from torch_geometric.data import Batch, Data

import reign
from reign.nn import (
    DS,
    DSS,
    GNNAK,
    IDGNN,
    NGNN,
    REIGN2_OFF,
    REIGN2_ON,
    SUN,
    DeepSets,
    GNNAKctx,
    IGNPooling,
    MeanPooling,
    Model,
    ReconstructionGNN,
    ReIGN2,
    RootPooling,
    State,
)
from reign.testing import random_graphs
from reign.theory import family, implement, linear_options, policy_program, run_policy, separate, wl_separates
from reign.theory._ign3_layers import lift

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

POLICIES = ["null", "nd", "nm", "ego:1", "ego:2", "ego:3", "ego+:1", "ego+:3"]
KNOWN = [ReconstructionGNN, DS, DSS, GNNAK, GNNAKctx, IDGNN, NGNN]  # the class Upsilon


def graphs(seed: int = 0, size: int = 6) -> list[Data]:
    made = random_graphs(4, min_nodes=2, max_nodes=size, edge_prob=0.45, num_features=2, dtype=torch.float64, seed=seed)
    return made + random_graphs(1, min_nodes=1, max_nodes=1, num_features=2, dtype=torch.float64)


def instance(kind: type, policy: str | None = None, **options: object) -> Model:
    torch.manual_seed(0)
    extra = {"inner_layers": 2} if issubclass(kind, GNNAK) else {}
    given = {} if policy is None else {"policy": policy}
    return kind(2, 3, 2, 2, **(linear_options(kind) | extra | given | options)).double().eval()


def assert_implements(model: Model, target: str, given: list[Data], tolerance: float = 1e-8) -> torch.nn.Module:
    batch = Batch.from_data_list(given)
    made = implement(model, target, graphs=given)
    with torch.no_grad():
        ours, theirs = (m(batch.x, batch.edge_index, batch=batch.batch) for m in (made, model))
    assert (ours - theirs).abs().max() <= tolerance * max(1.0, float(theirs.abs().max()))
    return made


@pytest.mark.parametrize("target", ["reign2", "sun", "ign3"])
def test_what_does_not_implement_is_found(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above fails for weights that are off by a millionth part."""
    model, right = instance(DSS, "nm"), implement

    def nearly(given: Model, name: str, graphs: list[Data]) -> torch.nn.Module:
        other = copy.deepcopy(given)
        with torch.no_grad():
            other.layers[0].slots()[0].encoder.lin_own.weight *= 1 + 1e-6
        return right(other, name, graphs=graphs)

    assert_implements(model, target, graphs(3))
    monkeypatch.setitem(globals(), "implement", nearly)
    with pytest.raises(AssertionError):
        assert_implements(model, target, graphs(3))


@pytest.mark.parametrize("policy", [*POLICIES, "nm+single", "ego+single:2"])
def test_lemma_3ign_implements_policies(policy: str) -> None:
    for seed in range(4):
        for data in graphs(seed, size=7):
            data.x = data.x.round()
            ours, bag = run_policy(data, policy), reign.policy(policy).from_data(data).to_dense()
            assert torch.equal(ours.A, bag.A)
            assert torch.equal(ours.x, bag.x)
            assert torch.equal(ours.member, bag.member)


@pytest.mark.parametrize("policy", ["nm", "ego+:2"])
def test_programs_are_plain_3igns(policy: str) -> None:
    """Linear equivariant layers of the basis, with ReLU on all channels: the selective one only costs channels."""
    data = graphs(1)[0]
    start, program = lift(data, 6, 2), policy_program(policy, 6, 2)
    assert torch.equal(program.plain()(start), program(start))


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("kind", KNOWN)
def test_lemma_3ign_implements_subgraph_networks(kind: type, domain: str) -> None:
    """The layers: values of all roots and all other nodes after the whole stack. Values outside subgraphs are 0 if sums are over members."""
    model, given = instance(kind, domain=domain), graphs(2)
    assert_same_values(model, implement(model, "ign3", graphs=given), given)


def assert_same_values(model: Model, made: torch.nn.Module, given: list[Data]) -> None:
    """The cube of a 3-IGN has the values of all pairs; outputs alone could agree where pairs have changed places."""
    for data in given:
        bag = model.policy.from_data(data)
        h = bag.lift(data.x)
        with torch.no_grad():
            for layer in model.layers:
                h = layer(h, bag)
        n, state = data.num_nodes, State(h, bag, model.domain)
        expected = state.h.view(n, n, -1)
        if isinstance(model, NGNN):  # its cube has gone on through the outer network: every subgraph has the values of nodes
            with torch.no_grad():
                expected = model.pooling.nodes(state)[None].expand(n, n, -1)
        values = made.cube(data)[:, torch.arange(n), torch.arange(n), : expected.size(2)]
        torch.testing.assert_close(values, expected, atol=1e-8, rtol=1e-8)


def path_and_others() -> list[Data]:
    """Paths of 5 nodes, whose ego nets of all depths differ, and of 3; and a single node."""
    ends = [torch.stack([torch.arange(n - 1), torch.arange(1, n)]) for n in (5, 3, 1)]
    return [Data(x=torch.rand(e.size(1) + 1, 2, dtype=torch.float64), edge_index=torch.cat([e, e.flip(0)], dim=1)) for e in ends]


def lively(kind: type, policy: str, **options: object) -> Model:
    """A model in which most units of ReLU are positive, so that all parts of the graphs count."""
    model = instance(kind, policy, **options)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.5 if name.endswith("bias") else 0.2
    return model


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KNOWN)
def test_theorem_3ign_upperbounds_subgraph_networks(kind: type, policy: str) -> None:
    """Policy, layers, pooling and head are one program with the same outputs, so the 3-IGN tells apart what the model does."""
    assert_implements(lively(kind, policy), "ign3", path_and_others(), tolerance=1e-10)


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != "nd"])
@pytest.mark.parametrize("kind", [GNNAK, GNNAKctx, NGNN])
def test_3ign_programs_with_sums_over_members(kind: type, policy: str) -> None:
    """Also with plain sums of the parts, as the proof writes [A]. Sums over all nodes are others if the ego nets are not the graph."""
    given, options = path_and_others(), {} if kind is NGNN else {"combine": "sum"}
    made = assert_implements(lively(kind, policy, domain="members", **options), "ign3", given, tolerance=1e-10)
    other = lively(kind, policy, **options)
    with torch.no_grad():
        gap = (made(given[0].x, given[0].edge_index) - other(given[0].x, given[0].edge_index)).abs().max()
    assert gap > 0.1 if "ego" in policy else gap < 1e-8


def test_sums_over_members_leave_out_deleted_roots() -> None:
    for kind, domain in ((NGNN, "members"), (DS, "members"), (DS, "all")):
        assert_implements(instance(kind, "nd", domain=domain), "ign3", graphs(3, size=5), tolerance=1e-10)


POOLINGS = {
    "sums": partial(MeanPooling, nodes="sum", subgraphs="sum"),
    "mean of sums": partial(MeanPooling, nodes="sum"),
    "sum of means": partial(MeanPooling, subgraphs="sum"),
    "early": partial(DeepSets, hidden=(4, 2), act="relu", nodes="sum"),
    "late": partial(DeepSets, hidden=(4, 2), invariance="late", act="relu"),
    "early sums": partial(DeepSets, hidden=(4, 2), act="relu", nodes="sum", subgraphs="sum"),
    "late sums": partial(DeepSets, hidden=(4, 2), invariance="late", act="relu", nodes="sum", subgraphs="sum"),
    "elu": partial(DeepSets, hidden=(3,), invariance="late"),
    "linear": partial(DeepSets, hidden=(3,), act=None),
    "sum of roots": partial(RootPooling, roots="sum"),
    "roots": RootPooling,
}


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("name", POOLINGS)
def test_poolings_as_programs(name: str, domain: str) -> None:
    model = instance(DS, "ego+:1", pooling=POOLINGS[name], domain=domain)
    assert_implements(model, "ign3", graphs(4, size=5), tolerance=1e-10)


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("level", ["node", "edge"])
@pytest.mark.parametrize("kind", [DSS, IDGNN, NGNN])
def test_predictions_for_nodes_and_edges_as_programs(kind: type, level: str, domain: str) -> None:
    options = {"act": None} if kind is DSS else {}  # also without activations
    model = instance(kind, "ego:1", task_level=level, domain=domain, **options)
    assert_implements(model, "ign3", graphs(5, size=5), tolerance=1e-10)


def test_the_program_of_a_model_is_a_plain_3ign() -> None:
    """From the graph to the prediction, with means: linear equivariant layers of the basis and ReLU on all channels, and nothing else."""
    path = Data(x=torch.rand(3, 1, dtype=torch.float64), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    torch.manual_seed(0)
    pooling = partial(DeepSets, hidden=(2,), act="relu")
    model = (
        NGNN(1, 1, 1, 1, policy="ego:1", **linear_options(NGNN) | {"domain": "members", "graph_pooling": "mean"}).double().eval()
    )
    for given in (model, DS(1, 1, 1, 1, policy="nd", pooling=pooling, **linear_options(DS)).double().eval()):
        made = implement(given, "ign3", graphs=[path])
        with torch.no_grad():
            torch.testing.assert_close(
                made.program.plain()(made.start(path)), given(path.x, path.edge_index)[0], rtol=1e-10, atol=0
            )
    with pytest.raises(ValueError, match="a plain 3-IGN has only ReLU, but a step of this program has ELU"):
        implement(DS(1, 1, 1, 1, policy="nd", **linear_options(DS)), "ign3", graphs=[path]).program.plain()


def test_programs_hold_for_smaller_graphs_too() -> None:
    """Sizes and features of the given graphs are bounds only."""
    model, large = instance(GNNAKctx, "ego:1", domain="members"), graphs(6, size=6)
    small = [Data(x=data.x / 2, edge_index=data.edge_index) for data in graphs(7, size=4)]
    made, batch = implement(model, "ign3", graphs=[max(large, key=lambda data: data.num_nodes)]), Batch.from_data_list(small)
    assert max(data.num_nodes for data in large) > 4
    with torch.no_grad():
        ours, theirs = (m(batch.x, batch.edge_index, batch=batch.batch) for m in (made, model))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_corollary_3wl_upperbounds_subgraph_networks() -> None:
    """No model separates a pair that 3-WL does not; tests/theorem/test_separate.py does this for all models and policies."""
    equal = [p for name in ("rook", "cfi") for p in family(name) if not wl_separates(p.one, p.other, 3)]
    assert len(equal) == 11
    assert not any(
        v.separated for v in separate(equal, ["ds:nm", "dss:ego+:2", "gnnakctx:nm", "idgnn:nm", "ngnn:ego:2"], layers=4, act=None)
    )


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize("policy", ["nd", "nm", "ego:2", "ego+:2"])
def test_theorem_reign_implements_subgraph_networks(kind: type, policy: str) -> None:
    made = assert_implements(instance(kind, policy), "reign2", graphs(4))
    names = {slot.name for layer in made.layers for slot in [*layer.slots(), *layer.slots(on=True)]}
    assert names <= {*REIGN2_OFF, *REIGN2_ON, "local"}


@pytest.mark.parametrize("term", sorted({*REIGN2_OFF, *REIGN2_ON}))
def test_proposition_3ign_implements_reign_term_by_term(term: str) -> None:
    torch.manual_seed(0)
    for shared in (False, True):
        off = [term] if term in REIGN2_OFF else ["own"]
        on = None if shared else [term] if term in REIGN2_ON else ["own"]
        model = ReIGN2(2, 2, 1, 2, policy="ego+:1", terms=off, root_terms=on, norm=None).double().eval()
        assert_same_values(model, assert_implements(model, "ign3", graphs(5, size=5)), graphs(5, size=5))


def test_proposition_3ign_implements_reign() -> None:
    torch.manual_seed(0)
    model = ReIGN2(2, 2, 2, 2, policy="ego+:2", norm=None).double().eval()
    assert_implements(model, "ign3", graphs(6, size=5))


def test_corollary_3wl_upperbounds_reign() -> None:
    equal = [p for name in ("rook", "cfi") for p in family(name) if not wl_separates(p.one, p.other, 3)]
    assert not any(v.separated for v in separate(equal, ["reign2:nm", "reign2:ego+:1", "sun:nm", "sun:null"], layers=3, act=None))


@pytest.mark.parametrize("policy", ["null", "nd", "nm", "ego:2", "ego+:2"])
@pytest.mark.parametrize("transpose", [False, True])
def test_proposition_sun_is_in_reign(policy: str, transpose: bool) -> None:
    made = assert_implements(instance(SUN, policy, transpose=transpose), "reign2", graphs(7))
    assert len(made.layers) == 4


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize("policy", ["nd", "nm", "ego:2", "ego+:2"])
def test_proposition_sun_implements_subgraph_networks(kind: type, policy: str) -> None:
    made = assert_implements(instance(kind, policy), "sun", graphs(8))
    assert all(type(layer).__name__ == "SUNConv" for layer in made.layers)


@pytest.mark.parametrize("kind", [SUN, *KNOWN])
@pytest.mark.parametrize("policy", ["null", "nd", "nm", "nm+single"])
def test_sun_with_the_null_policy_marks_and_deletes_roots(kind: type, policy: str) -> None:
    """One more layer, and weights of their own for roots, make SUN (null) the same as SUN (nm) and SUN (nd)."""
    for options in ({}, {"transpose": True}) if kind is SUN else ({},):
        model = instance(kind, policy, **options)
        made = assert_implements(model, "sun:null", graphs(8), tolerance=1e-10)
        assert str(made.policy) == "null"
        assert all(type(layer).__name__ == "SUNConv" for layer in made.layers)
        assert len(made.layers) == len(implement(model, "sun").layers) + (policy != "null")


def test_sun_in_3igns() -> None:
    assert_implements(instance(SUN, "ego+:2"), "ign3", graphs(9))


@pytest.mark.parametrize("end_act", [False, True])
@pytest.mark.parametrize("combine", ["sum", "cat", "linear"])
def test_all_combinations_of_gnn_ak(combine: str, end_act: bool) -> None:
    for target in ("reign2", "sun", "ign3"):
        assert_implements(instance(GNNAKctx, "ego:2", combine=combine, end_act=end_act), target, graphs(10))


@pytest.mark.parametrize(
    ("make", "target", "message"),
    [
        (lambda: reign.nn.SSWL(2, 3, 2, 2, norm=None), "sun", "no construction is known for SSWL in sun"),
        (lambda: reign.nn.PPGN(2, 3, 2, 2), "ign3", "no construction is known for PPGN in ign3"),
        (
            lambda: instance(ReIGN2),
            "sun",
            "SUN cannot implement ReIGN2: with node marking, ReIGN\\(2\\) tells graphs apart that no SUN does",
        ),
        (lambda: instance(DS, "nm", residual=True), "reign2", "DS with residual connections"),
        (lambda: DS(2, 3, 2, 2), "reign2", "got base encoder GIN .* norms"),
        (lambda: DSS(2, 3, 2, 2, conv="graphconv", norm=None), "sun", "got means"),
        (lambda: DS(2, 3, 2, 2, conv="graphconv", norm=None, act="silu"), "sun", "got activation SiLU"),
        (lambda: SUN(2, 3, 2, 2, conv="graphconv", norm=None, needle="sum"), "reign2", "got MLPs"),
        (lambda: GNNAK(2, 3, 2, 2, conv="graphconv", norm=None, aggregation="mean"), "sun", "aggregation='sum'"),
        (lambda: instance(DS, "nm+distance"), "ign3", "no construction is known for policy 'nm\\+distance5'"),
        (lambda: instance(DS, "nm"), "ign4", "target is 'ign4', expected 'reign2', 'sun', 'sun:null' or 'ign3'"),
        (lambda: instance(ReIGN2), "sun:null", "SUN cannot implement ReIGN2"),
        (
            lambda: instance(SUN, "ego+:2"),
            "sun:null",
            "SUN \\(null\\) in place of policy 'ego\\+:2' with domain='all'; use 'nm' or 'nd'",
        ),
        (lambda: instance(DS, "nd", domain="members"), "sun:null", "in place of policy 'nd' with domain='members'"),
        (lambda: instance(DS, "nm", virtual_node=True), "sun:null", "no construction in sun:null is known for virtual_node"),
        (lambda: instance(DS, "nm", virtual_node=True), "ign3", "no construction in ign3 is known for virtual_node"),
        (lambda: instance(DS, "nm", pooling=IGNPooling), "ign3", "covers MeanPooling, .* got IGNPooling"),
        (lambda: instance(DS, "nm", pooling=partial(RootPooling, unit=True)), "ign3", "RootPooling without unit=True"),
        (lambda: instance(DS, "nm", head={"norm": "batch_norm"}), "ign3", "heads without norms and log_softmax"),
    ],
)
def test_what_has_no_construction_says_so(make, target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        implement(make(), target, graphs=graphs())
    if target == "ign3":
        with pytest.raises(ValueError):
            implement(make(), target)


def test_the_model_given_stays_as_it_is() -> None:
    data = graphs()[0]
    for kind, target in ((SUN, "sun"), (ReIGN2, "reign2"), (DS, "sun")):
        model = kind(2, 3, 1, 1, policy="nm", **linear_options(kind))
        made = implement(model, target)
        assert not {id(p) for p in made.parameters()} & {id(p) for p in model.parameters()}
        assert model(data.x.float(), data.edge_index).dtype == torch.float32
        with pytest.raises(ValueError, match="constructed"):
            made.save_pretrained("nowhere")
    assert implement(ReIGN2(2, 3, 1, 1, policy="nm", norm=None), "ign3", graphs=[data])(data.x, data.edge_index).shape == (1, 1)


@pytest.mark.parametrize(
    ("make", "target", "message"),
    [
        (lambda: instance(DSS, "nm", aggregated_adjacency=True), "sun", "no construction is known for the term 'needle_msg@agg'"),
        (lambda: NGNN(2, 3, 1, 1, **(linear_options(NGNN) | {"readout": "mean"})), "ign3", "covers NGNN only with readout='sum'"),
        (
            lambda: ReIGN2(2, 3, 1, 1, terms=["own", "swap_local"], root_terms=None, norm=None),
            "reign2",
            "'swap_local' is not in the",
        ),
        (lambda: DSS(2, 3, 1, 1, **(linear_options(DSS) | {"domain": "members"})), "reign2", "covers only domain='all'"),
    ],
)
def test_what_would_be_wrong_is_refused(make, target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        implement(make(), target, graphs=graphs())


def test_gates_need_graphs() -> None:
    with pytest.raises(ValueError, match="needs graphs, because the gates of the construction are exact only up to given sizes"):
        implement(instance(DS, "nm"), "ign3")
