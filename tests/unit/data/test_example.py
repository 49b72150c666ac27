"""The files for a first try: molecules with what RDKit says of them, and pairs of graphs that are what they are said to be."""

from pathlib import Path

import networkx as nx
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen
from typer.testing import CliRunner

from reign.cli import app
from reign.data import write_example
from reign.data._example import molecules, pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example") / "new" / "folder"
    assert [file.name for file in write_example(folder)] == ["molecules.csv", "others.csv", "graphs.g6"]
    return folder


def test_the_table_is_small_and_has_the_logp_of_rdkit(folder: Path) -> None:
    table = pd.read_csv(folder / "molecules.csv")
    assert list(table.columns) == ["smiles", "logP"]
    assert len(table) == len(set(table["smiles"])) == 300
    read = [Chem.MolFromSmiles(text) for text in table["smiles"]]
    assert [Chem.MolToSmiles(mol) for mol in read] == list(table["smiles"])
    assert table["logP"].tolist() == pytest.approx([Crippen.MolLogP(mol) for mol in read], abs=0.0051)
    assert table["logP"].std() > 1
    assert sum(file.stat().st_size for file in folder.iterdir()) < 40_000
    assert molecules() == molecules()


def test_the_others_are_other_molecules_and_one_is_none(folder: Path) -> None:
    others = pd.read_csv(folder / "others.csv").set_index("name")["smiles"]
    atoms = {
        "aspirin": 13,
        "caffeine": 14,
        "paracetamol": 11,
        "ibuprofen": 15,
        "nicotine": 12,
        "vanillin": 11,
        "menthol": 11,
        "table salt": 2,
    }
    read = {name: Chem.MolFromSmiles(text) for name, text in others.items()}
    assert {name: mol.GetNumAtoms() for name, mol in read.items() if mol is not None} == atoms
    assert not {Chem.MolToSmiles(mol) for mol in read.values() if mol is not None} & {smiles for smiles, _ in molecules()}


def test_the_graphs_are_what_they_are_said_to_be(folder: Path) -> None:
    for one, other in pairs():
        assert sorted(dict(one.degree).values()) == sorted(dict(other.degree).values())
        assert not nx.is_isomorphic(one, other)
    rook, shrikhande = pairs()[-1]
    for graph in (rook, shrikhande):  # strongly regular, with the parameters 16, 6, 2, 2
        assert {degree for _, degree in graph.degree} == {6}
        common = {len(list(nx.common_neighbors(graph, a, b))) for a in graph for b in graph if a != b}
        assert (len(graph), common) == (16, {2})
    lines = [line.split() for line in (folder / "graphs.g6").read_bytes().splitlines()]
    assert all(nx.is_isomorphic(nx.from_graph6_bytes(word), graph) for line, pair in zip(lines, pairs(), strict=True) for word, graph in zip(line, pair, strict=True))  # fmt: skip


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["data", "example"])
    assert done.exit_code == 0
    assert "example/graphs.g6 was written." in done.stdout.replace("\\", "/")
    (tmp_path / "taken").write_text("a file")
    assert CliRunner().invoke(app, ["data", "example", "taken"]).exit_code == 2
