"""Turn a user's inputs for prediction into graphs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric.data import Data

from reign.train.settings.config import DataConfig

if TYPE_CHECKING:
    from reign.data.molecules import Descriptors


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
    if trained_on.descriptors_path is not None:
        raise ValueError("the model needs a table of descriptors; use predict_file with descriptors_path.")
    from reign.data.molecules import graphs_of, read_many

    molecules, wrong_texts = read_many(texts, trained_on.stereo_of_graphs)
    graphs, wrong_texts = graphs_of(molecules, wrong_texts)
    graphs, wrong_texts = descriptors_of(trained_on).extend(graphs, molecules, wrong_texts)
    return graphs, wrong_texts, texts


def descriptors_of(config: DataConfig) -> "Descriptors":
    """The descriptors of the table with these settings."""
    from reign.data.molecules import Descriptors

    return Descriptors(config.descriptors_columns, config.descriptors_path, config.molecule_featurizers)


def descriptors_like(config: DataConfig, path: "str | Path | None") -> "Descriptors":
    """The same descriptors for another table.

    Args:
        config: the settings of the table that was trained on.
        path: the file of descriptors of the other table, if the training had such a file.
    """
    if path is not None and config.descriptors_path is None:
        raise ValueError("the run was trained without a file of descriptors; leave --descriptors-path out.")
    if path is None and config.descriptors_path is not None:
        raise ValueError("the run was trained with a file of descriptors; give that of this table with --descriptors-path.")
    return descriptors_of(config.model_copy(update={"descriptors_path": path}))


def without_targets(data: Data, trained_on: DataConfig) -> Data:
    """The features of a graph alone; its edges get the type 0 if those of the training data did."""
    attr = data.edge_attr
    if trained_on.one_edge_type and attr is None:
        attr = data.edge_index.new_zeros(data.edge_index.size(1))
    return Data(x=data.x, edge_index=data.edge_index, edge_attr=attr)
