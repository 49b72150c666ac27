"""ZINC-12k (Dwivedi et al. 2020): constrained solubility of 12,000 molecules."""

import torch
from torch_geometric.data import Data

from reign.data._base import DATASETS, GraphDataset
from reign.data._files import download_folder, local_file, read_arrays, unpack


@DATASETS.register()
class ZINC(GraphDataset):
    """ZINC-12k: atom types, bond types, constrained solubility; 10,000 / 1,000 / 1,000."""

    name = "zinc"
    about = "ZINC-12k, constrained solubility of molecules (regression)"
    node_encoder = 21  # only 21 of 28 types occur in these molecules
    edge_encoder = 4
    sizes = {"train": 10_000, "val": 1_000, "test": 1_000}  # noqa: RUF012

    def make(self) -> dict[str, list[Data]]:
        """Read the graphs from ``REIGN_DATA``, or download them through PyG."""
        file = local_file("zinc12k.npz")
        if file is None:
            with download_folder() as folder:
                return {split: self._official(folder, split) for split in self.splits}
        arrays = read_arrays(file)
        out = {}
        for split in self.splits:
            part = {key.removeprefix(f"{split}_"): value for key, value in arrays.items() if key.startswith(f"{split}_")}
            types = {key: torch.from_numpy(part[key]).long()[:, None] for key in ("atom_type", "bond_type")}
            y = torch.from_numpy(part["y"]).float()
            sizes = part["node_ptr"][1:] - part["node_ptr"][:-1]
            out[split] = unpack(sizes, part["edge_ptr"], part["edge_uv"], types["atom_type"], y, types["bond_type"])
        return out

    def _official(self, folder: str, split: str) -> list[Data]:
        from torch_geometric.datasets import ZINC as Official

        return [
            Data(x=d.x.view(-1, 1), edge_index=d.edge_index, edge_attr=d.edge_attr.view(-1, 1), y=d.y.view(1, 1).float())
            for d in Official(folder, subset=True, split=split)
        ]
