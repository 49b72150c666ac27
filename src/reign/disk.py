"""Files that are either complete or absent: each is written under another name, then renamed."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch


def write_bytes(file: Path, content: bytes) -> None:
    """Replace a file in one step: if the process is killed, either the old or the new file is there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    with beside.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)


def write_text(file: Path, content: str) -> None:
    """Write a text file in one step."""
    write_bytes(file, content.encode())


def write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV table in one step."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(file, out.getvalue())


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file in one step."""
    write_text(file, json.dumps(value, indent=2) + "\n")


def write_state(file: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values in one step."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_bytes(file, buffer.getvalue())


def read_state(file: Path) -> dict[str, Any]:
    """Read what ``write_state`` wrote; no code in the file is run."""
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes torch raise
        raise ValueError(f"{file} is damaged ({_first_line(error)}); delete it to start this model anew.") from None
    if not isinstance(state, dict):
        raise ValueError(f"{file} holds {type(state).__name__}, expected the state of a run; delete it to start this model anew.")
    return state


def read_json(file: Path) -> Any:
    """Read what ``write_json`` wrote."""
    try:
        value = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({_first_line(error)}).") from None
    return value


def remove_unfinished(folder: Path) -> None:
    """Remove the files that a killed process was still writing."""
    for file in folder.rglob(".*.[0-9]*"):
        file.unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
