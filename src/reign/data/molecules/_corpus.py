"""A corpus: many molecules without measurements, whose targets are RDKit's 2D descriptors. An encoder learns from it what molecules look like."""

import hashlib
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from reign.data._files import Progress
from reign.data._pack import GraphPack
from reign.data._problem import Problem
from reign.disk import read_tensors, write_tensors
from reign.kernels import ragged
from reign.smiles import describe_all, quick_descriptors

FAR = 6.0  # deviations at which standardised descriptors are clipped
COLUMNS = {
    "x": 2,
    "edge_index": 2,
    "edge_attr": 2,
    "nodes": 1,
    "edges": 1,
    "values": 2,
}  # the tensors of a file, with their dimensions


@dataclass(frozen=True, eq=False)
class Corpus:
    """Molecules with their descriptors.

    Args:
        tensors: x, edge_index and edge_attr of all molecules end to end, their numbers of nodes and edges, and the values of the descriptors.
        names: the names of the descriptors.
        failed: number of SMILES that were left out.
        source: what it was read from, see ``source_of``; empty if this is not known.
    """

    tensors: dict[str, Tensor]
    names: list[str]
    failed: int
    source: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls, file: Path, num_workers: int, limit: int | None = None, seed: int = 0, progress: Progress = lambda items, _: items
    ) -> "Corpus":
        """Read a file with one SMILES in each line, in random order, and compute the descriptors.

        Args:
            file: a text file, which may be compressed as .xz.
            num_workers: number of processes.
            limit: the most molecules to read; all if not given.
            seed: determines the order.
            progress: function that wraps loops, to show progress.
        """
        texts = [word for line in _lines(file) if (word := line.split()[0] if line.split() else "")]
        order = np.random.default_rng(seed).permutation(len(texts))[:limit]
        if not len(order):
            raise ValueError(f"{file} has no SMILES, expected one in each line.")
        blocks = list(
            progress(describe_all([texts[row] for row in order], num_workers), f"descriptors of {len(order):,} molecules, block")
        )
        parts = {
            name: np.concatenate([getattr(block, name) for block in blocks], axis=int(name == "edge_index")) for name in COLUMNS
        }
        if not len(parts["nodes"]):
            raise ValueError(f"{file} has no line that is a SMILES, expected one in each line; the first is {texts[0]!r:.80}.")
        return cls(
            {name: torch.from_numpy(part) for name, part in parts.items()},
            quick_descriptors(),
            sum(block.failed for block in blocks),
            source_of(file, limit, seed),
        )

    def save(self, file: Path) -> None:
        """Write the corpus."""
        write_tensors(file, self.tensors, {"names": " ".join(self.names), "failed": str(self.failed), **self.source})

    @classmethod
    def load(cls, file: Path) -> "Corpus":
        """Read what ``save`` wrote."""
        tensors, about = read_tensors(file)
        names, failed = about.get("names", "").split(), about.get("failed", "")
        good = (
            tensors.keys() == COLUMNS.keys()
            and all(tensors[name].dim() == number for name, number in COLUMNS.items())
            and failed.isdigit()
        )
        if good:
            nodes, edges = (int(tensors[name].sum()) for name in ("nodes", "edges"))
            number = tensors["nodes"].numel()
            shapes = {
                "x": (nodes, 9),
                "edge_index": (2, edges),
                "edge_attr": (edges, 3),
                "edges": (number,),
                "values": (number, len(names)),
            }
            good = number > 0 and all(tensors[name].shape == shape for name, shape in shapes.items())
        if not good:
            raise ValueError(f"{file} is no corpus, expected a file written by reign pretrain; delete it to read the SMILES again.")
        return cls(tensors, names, int(failed), {key: about[key] for key in SOURCE if key in about})

    def check_source(self, file: Path, smiles: Path, limit: int | None, seed: int) -> None:
        """Raise ``ValueError`` if the corpus in a file was read from other molecules than these. A missing file of SMILES is not compared."""
        for key, asked in source_of(smiles, limit, seed).items():
            if self.source.get(key, asked) != asked:
                raise ValueError(
                    f"{file} holds the descriptors of other molecules: its {SOURCE[key]} is {self.source[key]:.16}, and that of {smiles} is {asked:.16} "
                    "here. Delete it to read the SMILES again, choose a new folder with -o (or file with --corpus), or ask for what it was made from."
                )

    def problem(self, val_share: float, seed: int = 0) -> Problem:
        """The descriptors as targets: standardised on the training part, and clipped at 6 deviations. Those that never vary are left out."""
        t, number = self.tensors, self.tensors["nodes"].numel()
        order = torch.randperm(number, generator=torch.Generator().manual_seed(seed))
        held = max(1, round(val_share * number))
        splits = {"train": order[held:].sort().values, "val": order[:held].sort().values}
        if not splits["train"].numel():
            raise ValueError(
                f"the corpus has {number} molecules, and {held} of them are for validation, so none is left to learn from."
            )
        y, varies = standardise(t["values"], splits["train"])
        graphs = GraphPack(
            t["x"].long(), t["edge_index"].long(), t["edge_attr"].long(), y, ragged.offsets(t["nodes"]), ragged.offsets(t["edges"])
        )
        names = [name for name, kept in zip(self.names, varies.tolist(), strict=True) if kept]
        return Problem("the corpus", graphs, splits, "regression", names, "atom", "bond")


SOURCE = {"sha256": "checksum of the SMILES", "limit": "--limit", "seed": "seed of the draw"}


def source_of(file: Path, limit: int | None, seed: int) -> dict[str, str]:
    """What determines the molecules of a corpus: the file, the limit, and the seed if the limit draws some. A missing file has no checksum."""
    found = {"limit": "none"} if limit is None else {"limit": str(limit), "seed": str(seed)}
    return {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), **found} if file.is_file() else found


def standardise(values: Float[Tensor, "molecules descriptors"], train: Tensor) -> tuple[Float[Tensor, "molecules kept"], Tensor]:
    """The descriptors in deviations from their means over the training part, clipped at 6, and which of them vary there."""
    known = values[train].double()
    mean = known.nanmean(0)
    deviation = (known - mean).square().nanmean(0).sqrt()
    varies = deviation.isfinite() & (deviation > 1e-6 * mean.abs().clamp(min=1e-6))
    return ((values[:, varies].double() - mean[varies]) / deviation[varies]).clamp(-FAR, FAR).float(), varies


def _lines(file: Path) -> Iterator[str]:
    """The lines of a text file, which may be compressed."""
    try:
        with (lzma.open if file.suffix.lower() == ".xz" else open)(file, "rt", encoding="utf-8") as lines:
            yield from lines
    except (UnicodeDecodeError, lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{file} cannot be read ({error}), expected a text file with one SMILES in each line.") from None
