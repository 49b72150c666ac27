"""The pooled vectors of molecules, which the head of a model predicts from."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reign.train.depends import about_stream
from reign.train.engine.callbacks import Callback
from reign.train.partial import Written, write_stream
from reign.train.stream import CHUNK, Stream, open_stream
from reign.train.table_jobs import VectorJob

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
        path: a table of molecules: CSV, which may be compressed, or Parquet.
        smiles_columns: columns of SMILES; those of the training if not given.
        callback: receives progress events.
        descriptors_path: a table of descriptors for this table, if the training had one.
    """
    return _open(predictor, path, smiles_columns, descriptors_path, 0, CHUNK).frame(callback or Callback())


def write_vectors(
    predictor: "Predictor",
    path: str | Path,
    output: str | Path,
    smiles_columns: Sequence[str] | None = None,
    callback: Callback | None = None,
    descriptors_path: str | Path | None = None,
    num_workers: int | None = 0,
    chunk_rows: int = CHUNK,
) -> Written:
    """Write the table of ``vectors_of_file`` to a file, chunk by chunk, as ``Predictor.write_predictions`` does.

    Args:
        predictor, path, smiles_columns, callback, descriptors_path: as above.
        output, num_workers, chunk_rows: as in ``Predictor.write_predictions``.
    """
    stream = _open(predictor, path, smiles_columns, descriptors_path, num_workers, chunk_rows)
    return write_stream(stream, Path(output), lambda: about_stream(predictor, stream, {"vectors": True}), callback or Callback())


def _open(
    predictor: "Predictor",
    path: str | Path,
    smiles_columns: Sequence[str] | None,
    descriptors_path: str | Path | None,
    num_workers: int | None,
    chunk_rows: int,
) -> Stream:
    predictor.need_smiles("use reign.load(...).models[0].vectors(...) from Python.")
    job = VectorJob(predictor)
    return open_stream(predictor.recipe.data, job, path, smiles_columns, descriptors_path, num_workers, chunk_rows)
