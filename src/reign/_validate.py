"""Checks of a user's input, and of the memory that it will take. Messages name the value, the expected value, and what to do.

Shapes and dtypes are always checked, because this is free. Values are checked only on the CPU, because on a GPU this would wait for the
device; ``reign.validate`` checks everything on any device.
"""

import ctypes
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def check_shapes(x: Any, edge_index: Any, edge_attr: Any, batch: Any) -> None:
    """Raise ``ValueError`` if the types and shapes of the tensors cannot be those of a PyG batch."""
    if not isinstance(x, Tensor):
        raise ValueError(
            f"x is {kind_of(x)}, expected a tensor of node features of shape (nodes, channels); "
            "for a graph without features use torch.ones(num_nodes, 1)."
        )
    for name, value in (("x", x), ("edge_index", edge_index), ("edge_attr", edge_attr), ("batch", batch)):
        if isinstance(value, Tensor):
            _check_dense(name, value)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected (nodes, channels); use x.view(num_nodes, -1).")
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(
            f"edge_index is {kind_of(edge_index)}, expected an integer tensor of shape (2, edges) with a source and a "
            "target per edge; for a graph without edges use torch.empty(2, 0, dtype=torch.long)."
        )
    _check_integer("edge_index", edge_index)
    num_nodes, num_edges = x.size(0), edge_index.size(1)
    if batch is not None:
        if not isinstance(batch, Tensor) or batch.shape != (num_nodes,):
            raise ValueError(
                f"batch is {kind_of(batch)}, expected a tensor of shape ({num_nodes},): the graph of each of the "
                f"{num_nodes} nodes, as in torch_geometric.data.Batch."
            )
        _check_integer("batch", batch)
    if edge_attr is not None:
        if not isinstance(edge_attr, Tensor):
            raise ValueError(f"edge_attr is {kind_of(edge_attr)}, expected a tensor of shape ({num_edges}, channels).")
        if edge_attr.dim() == 0 or edge_attr.size(0) != num_edges:
            hint = "one row per edge of edge_index"
            if edge_attr.shape == (num_nodes,) and not edge_attr.is_floating_point():
                hint = "this looks like batch: pass it as batch=..., the third argument is edge_attr"
            raise ValueError(
                f"edge_attr is {kind_of(edge_attr)} for {num_edges} edges and {num_nodes} nodes, expected "
                f"({num_edges}, channels); {hint}."
            )
    devices = {name: t.device for name, t in _named(x, edge_index, edge_attr, batch).items()}
    if len(set(devices.values())) > 1:
        where = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"The input is spread over several devices ({where}); move it to one with .to(device).")
    if x.is_meta:
        raise ValueError("The input is on the device 'meta' and has no values, expected tensors on the CPU or a GPU.")


def check_values(x: Any, edge_index: Any, edge_attr: Any, batch: Any) -> None:
    """Raise ``ValueError`` if indices or batch ids are invalid. This reads the values, so it waits for a GPU."""
    num_nodes = x.size(0)
    if edge_index.numel():
        low, high = (int(v) for v in edge_index.aminmax())
        if low < 0 or high >= num_nodes:
            raise ValueError(
                f"edge_index holds node ids from {low} to {high}, expected 0 to {num_nodes - 1} for the {num_nodes} rows "
                "of x; check that x has a row for every node, including isolated ones."
            )
    if batch is None:
        if edge_attr is not None and edge_attr.shape == (num_nodes,) and _like_batch(edge_attr, edge_index):
            raise ValueError(
                f"edge_attr is {kind_of(edge_attr)} and looks like batch (both ends of every edge have the same id); "
                "pass it as batch=..., or give edge_attr the shape (edges, 1)."
            )
        return
    if batch.numel() and (int(batch[0]) < 0 or bool((batch.diff() < 0).any())):
        raise ValueError(
            f"batch starts at {int(batch[0])} and is {'not ' if bool((batch.diff() < 0).any()) else ''}sorted, expected "
            "ids from 0 upwards with the nodes of a graph together; sort the nodes by graph, or use "
            "torch_geometric.data.Batch.from_data_list."
        )
    source, target = edge_index
    astray = (batch[source] != batch[target]).nonzero()
    if astray.numel():
        edge = int(astray[0])
        raise ValueError(
            f"edge {edge} joins node {int(source[edge])} of graph {int(batch[source[edge]])} to node {int(target[edge])} of "
            f"graph {int(batch[target[edge]])}, expected both ends in one graph; check batch, and that edge_index numbers "
            "nodes over the whole batch."
        )


def check(name: str, value: object, good: bool, expected: str) -> None:
    """Raise ``ValueError``, with the value and what was expected, unless ``good``."""
    if not good:
        raise ValueError(f"{name} is {value!r}, expected {expected}.")


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise ``ValueError`` if an argument is not a whole number of at least ``least``."""
    check(name, value, type(value) is int and value >= least, f"a whole number of at least {least}")


def check_probability(name: str, value: object) -> None:
    """Raise ``ValueError`` if an argument is not a number of at least 0 and below 1."""
    check(name, value, isinstance(value, int | float) and 0 <= value < 1, "a number of at least 0 and below 1")


def did_you_mean(word: str, known: Iterable[str] | Mapping[str, str], number: int = 1, cutoff: float = 0.6) -> str:
    """The part of a message that suggests similar known words, if there are any, in upper or lower case.

    Args:
        word: the word that was given.
        known: the known words, or a mapping from known spellings to words.
        number: the largest number of words to suggest.
        cutoff: the least similarity, from 0 (not similar) to 1 (equal).

    >>> did_you_mean("epoch", ["epochs", "loss"]), did_you_mean("smiles", ["SMILES"]), did_you_mean("xyz", ["epochs"])
    ("; did you mean 'epochs'?", "; did you mean 'SMILES'?", '.')
    """
    pairs = known.items() if isinstance(known, Mapping) else [(each, each) for each in known]
    words = {spelling.lower(): each for spelling, each in pairs}
    near = dict.fromkeys(words[each] for each in get_close_matches(word.lower(), words, number, cutoff=cutoff))
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else "."


def validate(data: Any) -> None:
    """Check a PyG ``Data`` or ``Batch`` completely: shapes, indices, batch, and no NaN or infinity in the features.

    Raises ``ValueError`` for the first problem found.

    >>> from torch_geometric.data import Data
    >>> validate(Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 2], [1, 0]])))
    Traceback (most recent call last):
        ...
    ValueError: edge_index holds node ids from 0 to 2, expected 0 to 1 for the 2 rows of x; check that x has a row for
    every node, including isolated ones.
    """
    x, edge_index, edge_attr, batch = (getattr(data, name, None) for name in ("x", "edge_index", "edge_attr", "batch"))
    check_shapes(x, edge_index, edge_attr, batch)
    check_values(x, edge_index, edge_attr, batch)
    for name, value in (("x", x), ("edge_attr", edge_attr)):
        if value is not None and not bool(value.isfinite().all()):
            row = int((~value.isfinite()).flatten(1 if value.dim() > 1 else 0).nonzero()[0, 0])
            raise ValueError(
                f"{name} holds NaN or infinity, first in row {row}: {value[row].tolist()}, expected finite numbers; "
                "fill in or drop the missing values."
            )


def _named(x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor | None) -> dict[str, Tensor]:
    given = {"x": x, "edge_index": edge_index, "edge_attr": edge_attr, "batch": batch}
    return {name: value for name, value in given.items() if value is not None}


def _like_batch(ids: Tensor, edge_index: Tensor) -> bool:
    """Whether a vector of integers, one per node, numbers graphs: 0, ..., 0, 1, ..., without edges between graphs."""
    if ids.is_floating_point() or ids.numel() == 0 or int(ids[0]) != 0 or int(ids[-1]) == 0:
        return False
    step = ids.diff()
    return bool(((step == 0) | (step == 1)).all()) and bool((ids[edge_index[0]] == ids[edge_index[1]]).all())


def _check_dense(name: str, value: Tensor) -> None:
    """Raise ``ValueError`` for nested, sparse and quantised tensors."""
    if value.is_nested:
        raise ValueError(f"{name} is a nested tensor, expected a dense one; concatenate the rows of all graphs, as PyG does.")
    if value.layout != torch.strided:
        raise ValueError(f"{name} has layout {value.layout}, expected a dense tensor; use {name}.to_dense().")
    if value.is_quantized:
        raise ValueError(f"{name} is quantised, expected plain numbers; use {name}.dequantize().")


def _check_integer(name: str, value: Tensor) -> None:
    if value.dtype != torch.long:
        raise ValueError(f"{name} has dtype {value.dtype}, expected torch.int64; use {name}.long().")


def kind_of(value: Any) -> str:
    """Describe a tensor by its shape and dtype, and any other value by its type."""
    if isinstance(value, Tensor) and value.is_nested:
        return "a nested tensor"
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and dtype {value.dtype}"
    return "None" if value is None else f"of type {type(value).__name__}"


# -- whether the pairs of a bag fit into memory, before they are allocated -------------------------------------------------------

INDEX_BYTES = 20  # subgraph and node of a pair (8 + 8), membership (1), hop distance (2), and about one byte of marks
STATE_BYTES = 256  # one hidden state of 64 float32 channels, the default if the model is not known
SMALL = 2**22  # with fewer pairs the memory is not checked


class DoesNotFit(ValueError):
    """A bag has too many pairs for the free memory."""


def free_memory(device: torch.device) -> int:
    """The number of bytes that can still be allocated on a device, as far as is known."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    if sys.platform == "win32":
        status = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: its length, then in bytes all of the memory, what is free, and others
        ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
        return status[2]
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_fits(num_pairs: int, device: torch.device, what: str, way_out: str, state_bytes: int = STATE_BYTES) -> None:
    """Raise ``DoesNotFit``, with the numbers of pairs and bytes and with advice, if ``num_pairs`` rows and one hidden state do not fit."""
    if num_pairs < SMALL:
        return
    free = free_memory(device)
    bag, state = num_pairs * INDEX_BYTES, num_pairs * state_bytes
    if bag + state > free:
        raise DoesNotFit(
            f"{what} makes {num_pairs:,} pairs (subgraph, node): {bag / 1e9:,.1f} GB for the bag and {state / 1e9:,.1f} GB "
            f"for one hidden state of {state_bytes} bytes per pair, but only {free / 1e9:,.1f} GB are free on {device}. {way_out}"
        )


def warn_of_size(nodes: int, num_pairs: int, what: str, way_out: str, state_bytes: int = STATE_BYTES) -> None:
    """Warn if all pairs of a single graph of ``nodes`` nodes are stored and there are many, before they use up the memory."""
    if num_pairs < SMALL:
        return
    state = num_pairs * state_bytes
    warnings.warn(
        f"{what} stores all {num_pairs:,} pairs (subgraph, node) of a graph of {nodes:,} nodes: {state / 1e9:,.1f} GB for one hidden state of "
        f"{state_bytes} bytes per pair. Every layer needs several of these, and training keeps them. {way_out}",
        stacklevel=4,
    )


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that there is not enough memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError | DoesNotFit):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
