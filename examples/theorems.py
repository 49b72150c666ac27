"""A tour of the theorems: subgraph GNNs are stronger than 1-WL, weaker than 3-WL, and SUN can do what the others can.

python examples/theorems.py               # a few seconds
"""

import argparse

import torch

from reign.nn import DSS, SUN
from reign.testing import random_graphs
from reign.theory import Pair, family, implement, linear_options, separate, wl_separates


def stronger_than_message_passing() -> None:
    """Pairs that 1-WL does not tell apart, so that no message-passing network does; SUN does."""
    print("1. Stronger than 1-WL")
    pairs: list[Pair] = [*family("triangles"), *family("decalin"), *family("csl")[:3]]
    for pair in pairs:
        one, sun = separate([pair], ["mpnn", "sun:nm"], act=None)
        print(f"   {pair.name:34s} 1-WL: {wl_separates(pair.one, pair.other, 1)!s:6s} mpnn: {one}; sun:nm: {sun}")


def bounded_by_three_wl() -> None:
    """What 3-WL does not tell apart, no node-based subgraph GNN of the paper does."""
    print("2. Bounded by 3-WL")
    (pair,) = family("rook")
    for verdict in separate([pair], ["sun:nm", "reign2:nm", "dss:ego+:2"], [1, 3], act=None):
        print(f"   {pair.name:34s} {verdict.method}: {verdict}")


def sun_implements_the_others(graphs: int) -> None:
    """Weights for SUN, built as in the proof, that compute what a DSS network with random weights computes."""
    print("3. SUN with weights as in the proof computes what DSS computes")
    torch.manual_seed(0)
    data = random_graphs(graphs, min_nodes=4, max_nodes=8, num_features=2, dtype=torch.float64)
    model = DSS(2, 4, 2, 1, policy="ego+:2", **linear_options(DSS)).double().eval()
    twin = implement(model, "sun", graphs=data)
    with torch.no_grad():
        worst = max(float((twin(g.x, g.edge_index) - model(g.x, g.edge_index)).abs().max()) for g in data)
    print(f"   largest difference on {graphs} graphs: {worst:.1e}")


def marks_for_free() -> None:
    """With own weights for roots, SUN can mark them itself, even where the policy does not."""
    print("4. SUN needs no marks")
    for verdict in separate(family("decalin"), ["dss:null", "sun:null"], act=None):
        print(f"   {verdict.method}: {verdict}")
    print(f"   {SUN(1, 8, 2, 1, policy='null')}")


def main(graphs: int) -> None:
    """All four."""
    stronger_than_message_passing()
    bounded_by_three_wl()
    sun_implements_the_others(graphs)
    marks_for_free()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=10, help="number of graphs to compare networks on")
    main(**vars(parser.parse_args()))
