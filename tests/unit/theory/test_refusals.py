"""Exact tests say of which models they have no exact form, and do not leave parts of them out."""

import networkx as nx
import pytest

import reign
from reign.nn import RootPooling, SubgraphGNN
from reign.theory import wl_separates
from reign.theory._plan import plan_of_model

PUBLISHED = [name for name in reign.list_models() if name.endswith("published")]


@pytest.mark.parametrize("name", PUBLISHED)
def test_peers_as_published_have_no_exact_form(name: str) -> None:
    with pytest.raises(ValueError, match="exact tests do not support"):
        plan_of_model(reign.build_model(name, 1, 4, 1, 1))


@pytest.mark.parametrize(
    "options",
    [
        {"labels": {"kind": "hop", "resistance": True}},
        {"encodings": {"pairs": ["resistance"]}},
        {"encodings": {"nodes": ["laplacian"]}},
        {"encodings": {"pairs": ["hop"], "every_layer": True}},
        {"virtual_node": True},
        {"root_terms": ["own"], "roots": "added"},
        {"terms": ["readout"], "on_pairs": True},
        {"pooling": lambda channels: RootPooling(channels, unit=True)},
    ],
)
def test_options_without_an_exact_form(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="exact tests do not support"):
        plan_of_model(SubgraphGNN(1, 4, 1, 1, **options))


@pytest.mark.usefixtures("signatures_unchecked")
def test_graphs_of_networkx_are_converted_first() -> None:
    one, other = nx.cycle_graph(6), nx.path_graph(6)
    with pytest.raises(ValueError, match="a graph is of type Graph, expected .* reign.data.from_networkx converts"):
        wl_separates(one, other)
    assert wl_separates(reign.data.from_networkx(one), reign.data.from_networkx(other))
