"""Turn a user's inputs for prediction into graphs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.data import Data

from reign.data import GraphPack
from reign.train.config import DataConfig

if TYPE_CHECKING:
    import pandas as pd

    from reign.data.molecules import Descriptors, Molecule


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

    molecules, wrong_texts = read_many(texts)
    graphs, wrong_texts = graphs_of(molecules, wrong_texts)
    graphs, wrong_texts = descriptors_of(trained_on).extend(graphs, molecules, wrong_texts)
    return graphs, wrong_texts, texts


def descriptors_of(config: DataConfig, path: "str | Path | None" = None) -> "Descriptors":
    """The descriptors of a table.

    Args:
        config: the settings of the table that was trained on.
        path: the file of descriptors, if it is another one than in training.
    """
    from reign.data.molecules import Descriptors

    if path is not None and config.descriptors_path is None:
        raise ValueError("the run was trained without a file of descriptors; leave --descriptors-path out.")
    return Descriptors(config.descriptors_columns, path or config.descriptors_path, config.molecule_featurizers)


def read_rows(
    config: DataConfig, path: "str | Path", smiles_columns: Sequence[str] | None, descriptors_path: "str | Path | None" = None
) -> "tuple[pd.DataFrame, list[Molecule | None], list[Data | None], dict[int, str]]":
    """A table to predict for: its text, and for each row a molecule and a graph, or None and the reason.

    Args:
        config: the settings of the table that was trained on.
        path: the table.
        smiles_columns: columns of SMILES; those of the training if not given.
        descriptors_path: a CSV of descriptors for this table, if the training had one.
    """
    from reign.data.molecules import graphs_of, need_columns, read_molecules, read_table

    table, odd = read_table(path)
    columns = smiles_columns or config.smiles_columns
    need_columns(table, columns, path)
    if config.descriptors_path is not None and descriptors_path is None:
        raise ValueError("the run was trained with a file of descriptors; give that of this table with --descriptors-path.")
    molecules, errors = read_molecules(table, columns, odd)
    graphs, errors = graphs_of(molecules, errors)
    graphs, errors = descriptors_of(config, descriptors_path).extend(graphs, molecules, errors, table, path)
    return table, molecules, graphs, errors


def packed(graphs: Sequence[Data | None]) -> GraphPack:
    """Graphs, none of them None, as a pack; it may be empty."""
    found = [without_targets(data) for data in graphs if data is not None]
    if found:
        return GraphPack.of(found)
    return GraphPack.of([Data(x=torch.zeros(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))]).select(torch.arange(0))


def without_targets(data: Data) -> Data:
    """The features of a graph alone."""
    return Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr)
