"""Turn a user's inputs for prediction into graphs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch_geometric.data import Data

from reign.data import GraphPack
from reign.train.config import DataConfig


def read_inputs(inputs: list[Any], trained_on: DataConfig) -> tuple[list[Data | None], dict[int, str], list[str] | None]:
    """The graphs (None where a SMILES cannot be read), the reasons for these, and the texts if the inputs are SMILES."""
    texts = [each for each in inputs if isinstance(each, str)]
    if not texts:
        if wrong := next(((i, each) for i, each in enumerate(inputs) if not isinstance(each, Data)), None):
            raise ValueError(f"input {wrong[0]} is of type {type(wrong[1]).__name__}, expected SMILES or PyG graphs.")
        return inputs, {}, None
    if len(texts) != len(inputs):
        raise ValueError(
            f"got {len(texts)} SMILES and {len(inputs) - len(texts)} other inputs, expected only SMILES or only PyG graphs."
        )
    if not trained_on.reads_smiles:
        raise ValueError(f"this run was trained on {trained_on.name}, not on SMILES; give it PyG graphs of the same kind.")
    from reign.data.molecules import graphs_of, read_many

    graphs, wrong_texts = graphs_of(*read_many(texts))
    return graphs, wrong_texts, texts


def packed(graphs: Sequence[Data | None]) -> GraphPack:
    """Graphs, none of them None, as a pack; it may be empty."""
    found = [without_targets(data) for data in graphs if data is not None]
    if found:
        return GraphPack.of(found)
    return GraphPack.of([Data(x=torch.zeros(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))]).select(torch.arange(0))


def without_targets(data: Data) -> Data:
    """The features of a graph alone."""
    return Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr)
