"""Messages between processes: JSON, and the bytes of arrays. No message can run code."""

import json
import struct
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from reign.smiles._features import Arrays
from reign.smiles._reading import KEY, Graphs, Rows

SIZES = struct.Struct("<QQ")  # the sizes of the JSON and of the arrays in bytes


def send_rows(file: IO[bytes], rows: Rows) -> None:
    """Send rows to read."""
    _send(file, [rows.texts, list(rows.wrong.items()), rows.numbers, rows.featurizers, rows.stereo])


def receive_rows(file: IO[bytes]) -> Rows | None:
    """Receive rows to read; None after the last ones."""
    if (message := _receive(file)) is None:
        return None
    (texts, wrong, numbers, featurizers, stereo), _ = message
    return Rows(texts, dict(wrong), numbers, featurizers, stereo)


def send_graphs(file: IO[bytes], graphs: Graphs) -> None:
    """Send graphs, the arrays of all of them end to end."""
    keys = np.frombuffer(b"".join(key.ljust(KEY, b"\0") for key in graphs.keys), dtype=np.uint8)
    arrays = [keys]
    if graphs.found:
        xs, edges, kinds = zip(*graphs.found.values(), strict=True)
        arrays += [np.concatenate(xs), np.concatenate(edges, axis=1), np.concatenate(kinds)]
    sizes = [(row, len(x), len(kinds)) for row, (x, _, kinds) in graphs.found.items()]
    _send(file, [list(graphs.errors.items()), sizes], arrays)


def receive_graphs(file: IO[bytes]) -> Graphs | None:
    """Receive graphs; None if the other process ended."""
    if (message := _receive(file)) is None:
        return None
    (errors, sizes), (keys, *whole) = message
    wrong, text = dict(errors), keys.tobytes()
    found: dict[int, Arrays] = {}
    node = edge = 0
    for row, nodes, edges in sizes:
        x, edge_index, edge_attr = whole
        found[row] = x[node : node + nodes], edge_index[:, edge : edge + edges], edge_attr[edge : edge + edges]
        node, edge = node + nodes, edge + edges
    each = [text[at : at + KEY] for at in range(0, len(text), KEY)]
    return Graphs([b"" if row in wrong else key for row, key in enumerate(each)], wrong, found)


def _send(file: IO[bytes], values: Any, arrays: Sequence[np.ndarray] = ()) -> None:
    head = json.dumps([values, [(array.dtype.str, array.shape) for array in arrays]]).encode()
    body = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    file.write(SIZES.pack(len(head), len(body)) + head + body)
    file.flush()


def _receive(file: IO[bytes]) -> tuple[Any, list[np.ndarray]] | None:
    sizes = file.read(SIZES.size)
    if len(sizes) < SIZES.size:
        return None
    expected = SIZES.unpack(sizes)
    head, body = map(file.read, expected)
    if (len(head), len(body)) != expected:  # the other process ended
        return None
    values, kinds = json.loads(head)
    arrays, at = [], 0
    for kind, shape in kinds:
        arrays.append(np.frombuffer(body, dtype=kind, count=int(np.prod(shape)), offset=at).reshape(shape))
        at += arrays[-1].nbytes
    return values, arrays
