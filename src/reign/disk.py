"""Read and write files safely. A file is either complete or absent, and reading a file never runs code.

A file is written under another name and then renamed. If a file cannot be written, or does not hold what is expected, an error names the
file.
"""

import io
import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

StateDict = dict[str, Any]  # the state of a part of a training, by name, as PyTorch has it
# the name of a file until it is complete, which no user would choose
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}\.reign-unfinished")


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """A new file to write in place of another one. It takes its name in one step when it is complete.

    After a kill or on a full disk, either the old or the new file exists.
    """
    beside = file.with_name(f".{file.name}.{secrets.token_hex(8)}.reign-unfinished")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield beside
            with beside.open("rb+") as made:
                os.fsync(made.fileno())
            beside.replace(file)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(f"{file} cannot be written ({error.strerror or error}).") from None


def write_bytes(file: Path, content: bytes) -> None:
    """Replace a file in one step."""
    with replaced(file) as beside, beside.open("wb") as out:
        out.write(content)


def check_writable(file: Path) -> None:
    """Raise ``ValueError`` if a file cannot be written, to find out before the work starts."""
    try:
        if file.is_dir():
            raise ValueError(f"{file} is a folder, expected the name of a file to write.")
        if not file.absolute().parent.is_dir():
            raise ValueError(f"{file} cannot be written, because the folder {file.absolute().parent} does not exist.")
        beside = file.with_name(f".{file.name}.{secrets.token_hex(8)}.reign-unfinished")
        beside.touch()
        beside.unlink()
    except OSError as error:
        raise ValueError(f"{file} cannot be written ({error.strerror or error}).") from None


def write_text(file: Path, content: str) -> None:
    """Write a text file in one step."""
    write_bytes(file, content.encode())


def write_csv(file: Path, header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV table in one step."""
    write_text(file, csv_text((header, *rows)))


def csv_text(rows: Iterable[Sequence[Any]], delimiter: str = ",") -> str:
    """The lines of a CSV table."""
    signs = f'{delimiter}"\r\n'  # unlike Python's writer, a lone carriage return is quoted: readers take it for the end of the row
    lines = (delimiter.join(_cell(value, signs) for value in row) or '""' for row in rows)  # an empty line would not count as a row
    return "".join(f"{line}\n" for line in lines)


def _cell(value: Any, signs: str) -> str:
    """A cell of a CSV table, quoted if it holds one of the signs."""
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in signs) else text


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file in one step."""
    write_text(file, json.dumps(value, indent=2) + "\n")


def write_state(file: Path, state: StateDict) -> None:
    """Write tensors and plain values in one step."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_bytes(file, buffer.getvalue())


def write_tensors(file: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> None:
    """Write named tensors and metadata as safetensors in one step; the same content always has the same bytes."""
    content = save({name: value.detach().cpu().contiguous() for name, value in tensors.items()})
    if about:  # which the library would write in a random order
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.dumps({"__metadata__": dict(about), **json.loads(content[8:end])}, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        content = len(header).to_bytes(8, "little") + header + content[end:]
    write_bytes(file, content)


def read_tensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file written by ``write_tensors`` into memory, so that later changes of the file have no effect."""
    try:
        content = file.read_bytes()
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, OSError, ValueError, RuntimeError, OverflowError, KeyError) as error:
        raise ValueError(f"{file} is damaged ({first_line(error)}).") from None
    return tensors, dict(header.get("__metadata__", {}))


def read_state(file: Path) -> StateDict:
    """Read a file written by ``write_state``. No code in the file is run."""
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch can raise any error for a damaged file
        reason = first_line(error)
        if isinstance(error, UnpicklingError):  # whose message advises to load the file unsafely
            reason = "it holds something other than tensors and plain values, which is not loaded, because it could run code"
        raise ValueError(f"{file} is damaged ({reason}); delete it to train this model from the start.") from None
    if not isinstance(state, dict):
        raise ValueError(
            f"{file} holds {type(state).__name__}, expected the state of a run; delete it to train this model from the start."
        )
    return state


def read_json(file: Path) -> Any:
    """Read a file written by ``write_json``."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{file} is damaged ({first_line(error)}).") from None
    except RecursionError:
        raise ValueError(f"{file} is damaged (it is nested too deeply).") from None


def read_record(file: Path, **fields: type | tuple[type, ...]) -> dict[str, Any]:
    """Read a JSON object and check the types of these fields; ``float`` stands for any finite number."""
    found = read_json(file)
    if not isinstance(found, dict):
        raise ValueError(f"{file} is damaged (it holds {type(found).__name__}, expected {', '.join(fields)}).")
    for name, kind in fields.items():
        if name not in found:
            raise ValueError(f"{file} is damaged (it has no {name}).")
        if not _is(found[name], kind):
            raise ValueError(f"{file} is damaged ({name} is {found[name]!r:.80}).")
    return found


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind)


def remove_unfinished(folder: Path) -> None:
    """Remove the files that a killed process was still writing, and no others."""
    for file in folder.rglob(".*.reign-unfinished"):
        if is_unfinished(file):
            file.unlink(missing_ok=True)


def is_unfinished(file: Path) -> bool:
    """Whether this is an unfinished file that a process was writing."""
    return _UNFINISHED.fullmatch(file.name) is not None and file.is_file()


def first_line(error: BaseException) -> str:
    """The first line of an error message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
