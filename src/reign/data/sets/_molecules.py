"""Sets of molecules: ZINC-12k (Dwivedi et al. 2020), constrained solubility of 12,000 molecules, and ogbg-molhiv, which of 41,127 inhibit HIV."""

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
            with download_folder(self.progress, "zinc12k.npz") as folder:
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


# -- ogbg-molhiv (Hu et al. 2020) ----------------------------------------------------------------------------------------


@DATASETS.register()
class MolHIV(GraphDataset):
    """ogbg-molhiv with OGB's columns of atom and bond features and its scaffold split; 32,901 / 4,113 / 4,113.

    Seven molecules have valences that RDKit finds impossible; they are kept, as OGB does.
    """

    name = "molhiv"
    about = "ogbg-molhiv, which molecules inhibit HIV (classification, scaffold split)"
    task = "classification"
    targets = ("HIV_active",)
    node_encoder = "atom"
    edge_encoder = "bond"
    reads_smiles = True
    sizes = {"train": 32_901, "val": 4_113, "test": 4_113}  # noqa: RUF012
    actives = {"train": 1_232, "val": 81, "test": 130}  # noqa: RUF012

    def make(self) -> dict[str, list[Data]]:
        """Read the molecules from ``REIGN_DATA``, or download them through ogb."""
        file = local_file("ogbg_molhiv.csv.xz")
        return self._official() if file is None else self._from_smiles(str(file))

    def check(self, made: dict[str, list[Data]]) -> None:
        """Check the sizes of the splits, and the number of active molecules in each."""
        super().check(made)
        found = {split: sum(int(data.y) for data in graphs) for split, graphs in made.items()}
        if self.actives and found != self.actives:
            raise ValueError(
                f"{self.name} has {found} active molecules, expected {self.actives}; check that the source files are complete."
            )

    def _from_smiles(self, file: str) -> dict[str, list[Data]]:
        import pandas as pd

        from reign.data.molecules import from_smiles

        out: dict[str, list[Data]] = {split: [] for split in self.splits}
        table = pd.read_csv(file)
        rows = list(zip(table["smiles"], table["HIV_active"], table["split"], strict=True))
        for smiles, active, split in self.progress(rows, "reading molecules, molecule"):
            data = from_smiles(smiles, strict=False)
            data.y = torch.tensor([[float(active)]])
            out["val" if split == "valid" else split].append(data)
        return out

    def _official(self) -> dict[str, list[Data]]:
        try:
            from ogb.graphproppred import GraphPropPredDataset
        except ModuleNotFoundError:
            raise ValueError(
                "ogbg-molhiv is downloaded with ogb, which is not installed: pip install ogb. Or put ogbg_molhiv.csv.xz into the folder given "
                "by the environment variable REIGN_DATA."
            ) from None
        with download_folder(self.progress, "ogbg_molhiv.csv.xz") as folder:
            official = GraphPropPredDataset("ogbg-molhiv", root=folder)
            ids = official.get_idx_split()
            return {split: [_data(*official[int(g)]) for g in ids["valid" if split == "val" else split]] for split in self.splits}


def _data(graph: dict[str, object], label: object) -> Data:
    return Data(
        x=torch.as_tensor(graph["node_feat"]).long(),
        edge_index=torch.as_tensor(graph["edge_index"]).long(),
        edge_attr=torch.as_tensor(graph["edge_feat"]).long(),
        y=torch.as_tensor(label).float().view(1, 1),
    )
