"""The X of scikit-learn as graphs: a list or array of SMILES, or a list of PyG graphs."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from torch_geometric.data import Data

from reign._validate import kind_of
from reign.train.settings.config import Stereo

Kind = Literal["smiles", "graphs"]


def read_graphs(X: Any, stereo: Stereo) -> tuple[list[Data], Kind]:
    """The graphs of the rows of X, and what the rows are. Every row that cannot be read raises ``ValueError``, because no row may be left out.

    Args:
        X: the rows.
        stereo: what the graphs of SMILES say about chirality, see ``DataConfig``.
    """
    if isinstance(X, str | Data) or not hasattr(X, "__len__") or not hasattr(X, "__getitem__"):
        raise ValueError(f"X is {kind_of(X)}, expected a list or array of SMILES, or a list of PyG graphs.")
    rows = _rows(X)
    if not rows:
        raise ValueError("X has 0 sample(s), but at least 1 is needed: X is empty, expected SMILES or PyG graphs.")
    texts = [isinstance(row, str) for row in rows]
    if all(texts):
        return _molecules(rows, stereo), "smiles"
    wrong = next((i for i, row in enumerate(rows) if not isinstance(row, Data)), None)
    if wrong is not None:
        raise ValueError(
            f"row {wrong} of X is {kind_of(rows[wrong])}, expected only SMILES, or only PyG graphs, in all {len(rows)} rows."
        )
    return [Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr) for data in rows], "graphs"


def _rows(X: Any) -> list[Any]:
    """The rows of a list, an array, a series or a data set; a table with one column counts as a list."""
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        if X.ndim == 2 and X.shape[1] == 1:
            X = X[:, 0]
        if X.ndim != 1:
            raise ValueError(
                f"X is an array of shape {X.shape}, expected one SMILES or graph per row: shape ({len(X) if X.ndim else 0},)."
            )
    return [str(row) if isinstance(row, str) else row for row in X]


def _molecules(texts: Sequence[str], stereo: Stereo) -> list[Data]:
    from reign.data.molecules import graphs_of, read_many

    graphs, wrong = graphs_of(*read_many(texts, stereo))
    if wrong:
        row, reason = min(wrong.items())
        more = f" ({len(wrong) - 1} more rows cannot be read)" if len(wrong) > 1 else ""
        raise ValueError(f"row {row} of X: {reason}{more}; leave such rows out.")
    return [data for data in graphs if data is not None]
