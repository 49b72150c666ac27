"""A new layer from terms: write it, look at it, ask the theory what it can tell apart, and train it.

python examples/new_layer.py              # the drawing is new_layer.svg; about a minute on a CPU
"""

import argparse
from pathlib import Path

import torch

from reign.data import Counting, Problem
from reign.nn import SubgraphGNN
from reign.plots import draw_layer
from reign.testing import assert_equivariant, random_graphs
from reign.theory import family, separate
from reign.train import Training, fit

TERMS = ["own", "local", "transpose"]  # to update x[k, i]: itself, its neighbours, and x[i, k]
ROOT_TERMS = ["own", "readout"]  # to update a root: itself, and the whole subgraph


def main(graphs: int, epochs: int, picture: Path) -> None:
    """Draw, check, compare, train."""
    draw_layer(terms=TERMS, root_terms=ROOT_TERMS).save(picture)
    print(f"The drawing is in {picture}.")

    torch.manual_seed(0)
    model = SubgraphGNN(1, 32, 3, 1, policy="ego+:2", terms=TERMS, root_terms=ROOT_TERMS)
    print(model.describe())
    assert_equivariant(model.eval(), random_graphs(1, min_nodes=8, num_features=1)[0])

    mine = SubgraphGNN(1, 16, 6, 4, policy="nm", terms=TERMS, root_terms=ROOT_TERMS, norm=None)
    for verdict in separate(family("decalin"), [mine, "sun:nm", "mpnn"], act=None):
        print(f"decalin and bicyclopentyl, {verdict.method.split('(')[0]}: {verdict}")

    splits = [list(Counting(split=split, num_graphs=graphs)) for split in ("train", "val", "test")]
    problem = Problem.of(*splits, targets=["triangle", "tailed-triangle", "star", "4-cycle", "5-cycle", "6-cycle"])
    result, _ = fit(model.train(), problem.select(["4-cycle"]), Training(epochs=epochs, batch_size=32, loss="l1", metric="mae"))
    print(f"4-cycles, mean absolute error in standard deviations: {result['best']['test']:.3f} after {result['epochs']} epochs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=1000, help="number of graphs of all splits")
    parser.add_argument("--epochs", type=int, default=20, help="number of epochs")
    parser.add_argument("--picture", type=Path, default=Path("new_layer.svg"), help="where to save the drawing")
    main(**vars(parser.parse_args()))
