"""The pooled vectors of molecules, which the head of a model predicts from."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from reign.train.callbacks import Callback
from reign.train.inputs import packed, read_rows

if TYPE_CHECKING:
    import pandas as pd

    from reign.train.predictor import Predictor


def vectors_of_file(
    predictor: "Predictor",
    path: str | Path,
    smiles_columns: Sequence[str] | None = None,
    callback: Callback | None = None,
    descriptors_path: str | Path | None = None,
) -> "pd.DataFrame":
    """A table of molecules with the additional columns ``fp_0``, ``fp_1``, ..., which hold the pooled vectors, and ``error``.

    Args:
        predictor: the models.
        path: a CSV of molecules.
        smiles_columns: columns of SMILES; those of the training if not given.
        callback: receives progress events.
        descriptors_path: a CSV of descriptors for this table, if the training had one.
    """
    import pandas as pd

    predictor.need_smiles("use reign.load(...).models[0].vectors(...) from Python.")
    table, _, graphs, errors = read_rows(predictor.recipe.data, path, smiles_columns, descriptors_path)
    good, failed = [i for i, data in enumerate(graphs) if data is not None], dict[int, str]()
    pack, several = packed([graphs[i] for i in good]), len(predictor.models) > 1
    parts: dict[str, list[Any]] = {}
    for m, model in enumerate(predictor.models):
        values = torch.full((len(graphs), model.vector_channels), torch.nan, dtype=torch.float64)
        if good:
            values[good] = model.vectors(pack, torch.arange(len(pack)), callback or Callback(), failed)
        parts |= {f"model_{m}_fp_{c}" if several else f"fp_{c}": column.tolist() for c, column in enumerate(values.t())}
    errors |= {good[g]: reason for g, reason in failed.items()}
    if taken := [name for name in [*parts, "error"] if name in table.columns]:
        raise ValueError(f"{path} already has a column '{taken[0]}', which the output needs; rename it.")
    parts["error"] = [errors.get(i, "") for i in range(len(graphs))]
    return pd.concat([table, pd.DataFrame(parts, index=table.index)], axis=1)
