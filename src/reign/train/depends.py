"""What the bytes of a table of predictions depend on, so that a stopped command is continued only by the same one."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import reign._version
from reign.train.stream import Stream

if TYPE_CHECKING:
    from reign.train.predictor import Predictor


def about_stream(predictor: "Predictor", stream: Stream, options: dict[str, Any]) -> dict[str, Any]:
    """What the bytes of an output depend on: input, models, options, versions and the kind of device.

    Args:
        predictor: the models.
        stream: the table, and what to compute.
        options: further options.
    """
    return {
        "input": digest([stream.table.path]),
        "columns": stream.smiles_columns,
        "descriptors": digest([stream.beside.path]) if stream.beside is not None else None,
        "models": digest(predictor.files()),
        "options": options,
        "chunk_rows": stream.chunk_rows,
        "device": predictor.models[0].device.type,
        "reign": reign._version.__version__,
        "torch": torch.__version__,
    }


def digest(files: Sequence[Path]) -> str:
    """A hash of the contents of some files; a file that does not exist counts as empty."""
    found = hashlib.sha256()
    for file in files:
        if file.is_file():
            with file.open("rb") as content:
                found.update(hashlib.file_digest(content, "sha256").digest())
        found.update(b"/")
    return found.hexdigest()[:16]
