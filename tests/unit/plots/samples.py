"""One picture of each kind, as the references have them."""

import networkx as nx

import reign
from reign.data import from_networkx
from reign.draw import Picture
from reign.plots import draw_bag_of, draw_layer, draw_layers, draw_orbits, draw_symmetry, read_graph

PAPER = ("sun", "dss", "ds", "ngnn", "idgnn", "gnnak", "gnnakctx")


def pictures(dark: bool = False) -> dict[str, Picture]:
    """The pictures by name."""
    found = {}
    for size in (5, 12, 30):
        graph = from_networkx(nx.house_graph() if size == 5 else nx.ladder_graph(6) if size == 12 else nx.balanced_tree(2, 4))
        found[f"bag-{size}"] = reign.policy("ego+:1").from_data(graph).draw(dark=dark)
    found["bag-edges"] = draw_bag_of(read_graph("house"), "ed", dark=dark)
    found["bag-deleted"] = draw_bag_of(read_graph("cycle:4"), "nd", dark=dark)
    found["bag-molecule"] = draw_bag_of(read_graph("CC(=O)Oc1ccccc1"), "ego+:2", dark=dark)
    for name in (*PAPER, "reign2", "ppgn", "mpnn"):
        found[f"layer-{name}"] = draw_layer(name, dark=dark)
    found["layer-terms"] = draw_layer(terms=["own", "local", "transpose"], root_terms=["own", "readout"], dark=dark)
    found["layers"] = draw_layers([*PAPER, "reign2", "sswl", "ign2", "ppgn", "mpnn"], dark=dark)
    found["orbits"] = draw_orbits(dark)
    found["symmetry"] = draw_symmetry(dark)
    return found
