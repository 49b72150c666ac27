"""Files with weights and outputs of the authors' code, beside the real data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_geometric.data import Batch

from zinc import zinc


class Golden:
    """One file; a skip where it is not beside the real data.

    Args:
        data: the folder of real data.
        name: the name of the file with its folder, without its ending.
    """

    def __init__(self, data: Path, name: str) -> None:
        file = data.parent / "reference" / f"{name}.npz"
        if not file.is_file():
            pytest.skip(f"{file.name} is not beside the real data")
        self.folder, self.arrays = data, np.load(file)

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self.arrays.files

    def part(self, kind: str) -> dict[str, Any]:
        """All arrays of a kind, such as "param/", without it in their names."""
        return {key.removeprefix(kind): self.arrays[key] for key in self.arrays.files if key.startswith(kind)}

    def batch(self) -> Batch:
        """The graphs of ZINC that the outputs belong to."""
        return Batch.from_data_list(zinc(self.folder, str(self["split"]), self["graph_ids"].tolist()))
