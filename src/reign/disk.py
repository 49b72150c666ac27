"""Files that are whole or not there: written beside, then renamed."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch


def write_bytes(file: Path, content: bytes) -> None:
    """Replace a file in one step; a kill at any moment leaves the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    with beside.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)


def write_text(file: Path, content: str) -> None:
    """The same for text."""
    write_bytes(file, content.encode())


def write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """The same for a table."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(file, out.getvalue())


def write_json(file: Path, value: Any) -> None:
    """The same for JSON."""
    write_text(file, json.dumps(value, indent=2) + "\n")


def write_state(file: Path, state: dict[str, Any]) -> None:
    """The same for tensors and plain values."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_bytes(file, buffer.getvalue())


def read_state(file: Path) -> dict[str, Any]:
    """What ``write_state`` wrote; nothing else is run."""
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes torch raise
        raise ValueError(f"{file} is damaged ({_first_line(error)}); delete it to start this model anew.") from None
    if not isinstance(state, dict):
        raise ValueError(f"{file} holds {type(state).__name__}, expected the state of a run; delete it to start this model anew.")
    return state


def read_json(file: Path) -> Any:
    """What ``write_json`` wrote."""
    try:
        value = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({_first_line(error)}).") from None
    return value


def remove_unfinished(folder: Path) -> None:
    """What a kill left of files that were being written."""
    for file in folder.rglob(".*.[0-9]*"):
        file.unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
