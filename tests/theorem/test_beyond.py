"""What models beyond the paper tell apart: their colour tests, networks over a finite field, and networks of floats."""

import networkx as nx
import pytest
import torch

from reign.data import from_networkx
from reign.nn import NODE_ENCODINGS, PAIR_ENCODINGS, SubgraphGNN, encoded
from reign.policies import policy
from reign.theory import Pair, family, model_colours, separate
from reign.theory._plan import EXACT, PRIMES

FOLKLORE, PRODUCT = "localfolklore:null", "ppgnrrwp"


def pairs() -> list[Pair]:
    """Pairs as in BREC: regular, strongly regular and CFI graphs."""
    return [pair for name in ("triangles", "decalin", "rook", "cfi") for pair in family(name) if pair.one.num_nodes <= 24]


def told(found: list[Pair], test: str | int) -> set[str]:
    return {verdict.pair for verdict in separate(found, wl=[test]) if verdict.separated}


def test_the_order_of_folklore_models() -> None:
    """SSWL+ < LocalFolklore <= 3-WL, and PPGN tells apart just what 3-WL does."""
    found = [*pairs(), *(pair for pair in family("cfi") if pair.name == "CFI(star 3: 1,1,1)")]
    folklore, three = told(found, FOLKLORE), told(found, 3)
    assert told(found, "sswl:nm") == folklore - {"CFI(star 3: 1,1,1)"} != folklore
    assert folklore <= three == told(found, PRODUCT)


@pytest.mark.parametrize("name", [FOLKLORE, PRODUCT])
def test_networks_tell_apart_what_colours_do(name: str) -> None:
    """In six layers over a field, just those; in float64 at least nine in ten of them, and no other."""
    found = pairs()
    colours = {v.pair for v in separate(found, wl=[f"{name}/6"]) if v.separated}
    verdicts = separate(found, [f"{name}/6"], seeds=(0,))
    assert {v.pair for v in verdicts if v.separated} == colours
    floats = {v.pair for v in verdicts if v.margin is not None and v.margin > 1}
    assert floats <= colours
    assert len(floats) >= 0.9 * len(colours) > 0


def test_random_walks_tell_regular_graphs_apart() -> None:
    """Two triangles and a ring of six are all the same to message passing from unmarked roots; not to random walks."""
    (pair,) = family("triangles")
    for encodings, expected in ((None, None), ({"pairs": ["rrwp:4"]}, 1), ({"nodes": ["return:3"]}, 1), ({"pairs": ["common"]}, 1)):
        model = SubgraphGNN(1, 4, 2, 1, policy="null", terms=["own", "local"], encodings=encodings)
        assert model_colours([pair.one, pair.other], model).separated(0, 1) == expected


@pytest.mark.parametrize(("name", "kind"), [("rrwp:5", "pair"), ("return:5", "node")])
def test_residues_are_those_of_the_fractions(name: str, kind: str) -> None:
    """All degrees on this graph divide 12, so the numbers times 12^5 are whole."""
    graph = from_networkx(nx.lollipop_graph(4, 2))
    bag = policy("nm").from_data(graph)
    values = encoded(bag, [name], PAIR_ENCODINGS if kind == "pair" else NODE_ENCODINGS, kind, torch.float64)
    scale = 12**5
    whole = (values * scale).round()
    assert torch.allclose(whole, values * scale, atol=1e-6)
    expected = whole.long() if kind == "pair" else whole.long()[bag.node]
    ours = EXACT[name.split(":")[0]](bag, 5).view(bag.num_pairs, len(PRIMES), 5)
    for p, prime in enumerate(PRIMES):
        assert torch.equal(ours[:, p] * scale % prime, expected % prime)
