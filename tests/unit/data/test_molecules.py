"""Tables of molecules: features, splits, labels, and rows that cannot be read."""

import gzip
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from reign.data import column_split, random_split, scaffold_split
from reign.data.molecules import Descriptors, Molecule, TableFile, canonical, from_smiles, load_table, read_table, scaffold


def test_features_of_a_molecule() -> None:
    """Acetic acid: the columns as OGB defines them."""
    data = from_smiles("CC(=O)O")
    assert data.x.tolist() == [
        [5, 0, 4, 5, 3, 0, 2, 0, 0],  # carbon, no chirality, 4 neighbours with H, charge 0, 3 H, no radical, sp3
        [5, 0, 3, 5, 0, 0, 1, 0, 0],
        [7, 0, 1, 5, 0, 0, 1, 0, 0],
        [7, 0, 2, 5, 1, 0, 1, 0, 0],
    ]
    assert data.edge_index.tolist() == [[0, 1, 1, 1, 2, 3], [1, 2, 3, 0, 1, 1]]
    assert data.edge_attr[:3].tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 1]]
    ring = from_smiles("c1ccccc1")
    assert ring.x[:, 7:].tolist() == [[1, 1]] * 6
    assert ring.edge_attr[:, 0].tolist() == [3] * 12
    assert from_smiles("C/C=C/C").edge_attr[1, 1] == 2  # STEREOE
    assert from_smiles("[He]").edge_index.shape == (2, 0)
    assert from_smiles("N[C@@H](C)C(=O)[O-]").x[:, [1, 3]].tolist() == [
        [0, 5],
        [1, 5],
        [0, 5],
        [0, 5],
        [0, 5],
        [0, 4],
    ]  # chirality, charge
    assert from_smiles("N[C@H](C)O").x[1].tolist() == [5, 2, 4, 5, 1, 0, 2, 0, 0]
    assert from_smiles("[CH2+]C").x[0].tolist() == [5, 0, 3, 6, 2, 0, 1, 0, 0]
    assert from_smiles("[CH3]").x[0].tolist() == [5, 0, 3, 5, 3, 1, 2, 0, 0]  # one radical electron


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no SMILES"),
        ("   ", "no SMILES"),
        (None, "no SMILES"),
        (3.5, "no SMILES"),
        ("xyz", "'xyz' is not a SMILES"),
        ("C1CC", "is not a SMILES"),
        ("F(F)(F)F", "Explicit valence for atom # 0 F, 3|4"),
        ("c1cccc1", "Can't kekulize"),
        ("CC O", "'CC O' holds white space, expected one SMILES"),
        ("C\nC", "holds white space"),
    ],
)
def test_what_is_no_molecule_says_why(text: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_smiles(text)


def test_spellings_and_scaffolds() -> None:
    assert canonical(" OCC ") == canonical("CCO")
    assert scaffold("Cc1ccccc1") == "c1ccccc1"
    assert scaffold("CCO") == ""


def test_random_splits_keep_equal_molecules_together() -> None:
    keys = [str(i // 3) for i in range(300)]
    splits = random_split(keys, (0.8, 0.1, 0.1), 0)
    assert {split: ids.numel() for split, ids in splits.items()} == {"train": 240, "val": 30, "test": 30}
    owner = {i: split for split, ids in splits.items() for i in ids.tolist()}
    assert len(owner) == 300
    assert all(owner[i] == owner[i - i % 3] for i in range(300))
    assert not torch.equal(splits["val"], random_split(keys, (0.8, 0.1, 0.1), 1)["val"])
    assert set(random_split(keys, (1.0, 0.0, 0.0), 0)) == {"train"}


def test_scaffold_splits_keep_scaffolds_together() -> None:
    scaffolds = ["big"] * 30 + [f"s{i // 2}" for i in range(40)] + [""] * 30
    keys = [str(i) for i in range(100)]
    splits = scaffold_split(scaffolds, keys, (0.8, 0.1, 0.1), 0)
    assert {split: ids.numel() for split, ids in splits.items()} == {"train": 80, "val": 10, "test": 10}
    assert set(range(30)) <= set(splits["train"].tolist())
    owner = {i: split for split, ids in splits.items() for i in ids.tolist()}
    assert all(owner[i] == owner[i + 1] for i in range(30, 70, 2))
    assert len({owner[i] for i in range(70, 100)}) > 1  # molecules without rings are on their own


def test_columns_of_splits() -> None:
    splits, wrong = column_split(["train", "Valid", "TEST ", "other", "", "validation"])
    assert {split: ids.tolist() for split, ids in splits.items()} == {"train": [0], "val": [1, 5], "test": [2]}
    assert set(wrong) == {3, 4}
    assert "expected train, val or test" in wrong[3]


def write(folder: Path, text: str, name: str = "mols.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_every_long_loop_over_a_table_shows_its_progress(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("smiles,y\nCC,1\nCCO,2\nxyz,3\n")
    loops: list[tuple[str, int]] = []

    def progress(items: Any, label: str) -> Any:
        loops.append((label, len(items)))
        return items

    load_table(
        tmp_path / "m.csv", split_sizes=(1.0, 0.0, 0.0), descriptors=Descriptors(featurizers=["rdkit_2d"]), progress=progress
    )
    assert loops == [("reading SMILES", 3), ("making graphs", 3), ("descriptors", 3), ("canonical SMILES", 3)]


def test_a_table_with_all_kinds_of_rows(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "id,smiles,a,b\n"
        "1,CCO ,1.5,2\n"  # spaces
        "2,OCC,NA,3\n"  # the same molecule, one label
        "3,xyz,1,1\n"
        "4,[Na+].[Cl-],,-1\n"  # a salt
        "5,CCC,,\n"  # no label
        "6,CCN,abc,1\n"
        "7,,1,1\n"
        "8,CCCC,inf,1\n"
        "9,c1ccccc1,2,nan\n",
    )
    problem, report = load_table(file, target_columns=["a", "b"], split_sizes=(1.0, 0.0, 0.0))
    assert report.rows == 9
    assert report.left_out == {
        3: "'xyz' is not a SMILES",
        5: "no label",
        6: "a is 'abc', expected a number, or an empty cell for a missing label",
        7: "no SMILES",
        8: "a is 'inf', expected a number, or an empty cell for a missing label",
    }
    assert (report.duplicates, report.salts, report.spaces, report.missing) == (1, 1, 1, 3)
    assert problem.names == ["1", "2", "4", "9"]
    assert problem.y[0].tolist() == [1.5, 2.0]
    assert [[math.isnan(v) for v in row] for row in problem.y.tolist()] == [
        [False, False],
        [True, False],
        [True, False],
        [False, True],
    ]
    assert len(report.lines()) == 7  # one of them: no row is for val and test
    assert report.lines()[1] == "targets (regression): a, b"


def test_targets_by_default_are_columns_of_numbers(tmp_path: Path) -> None:
    file = write(tmp_path, "smiles,name,logS,split\nCC,a,1,train\nCCC,b,,test\nCCCC,c,2,val\n")
    problem, report = load_table(file, splits_column="split")
    assert problem.targets == ["logS"]
    assert report.left_out == {2: "no label"}
    assert {split: ids.tolist() for split, ids in problem.splits.items()} == {"train": [0], "val": [1]}


def test_classes(tmp_path: Path) -> None:
    file = write(tmp_path, "smiles,kind,toxic\nCC,b,0\nCCC,a,1\nCCCC,b,2\nCCCCC,,1\n")
    problem, report = load_table(file, target_columns=["kind"], task="multiclass", split_sizes=(1.0, 0.0, 0.0))
    assert problem.classes == ["a", "b"]
    assert problem.y.squeeze(1).tolist() == [1.0, 0.0, 1.0]
    problem, report = load_table(file, target_columns=["toxic"], task="classification", split_sizes=(1.0, 0.0, 0.0))
    assert report.left_out == {3: "toxic is '2', expected 0 or 1; for more classes use --task-type multiclass"}
    numbers = write(tmp_path, "smiles,kind\nCC,10\nCCC,9\nCCCC,10\n", "numbers.csv")
    assert load_table(numbers, task="multiclass", split_sizes=(1.0, 0.0, 0.0))[0].classes == ["9", "10"]
    with pytest.raises(ValueError, match="a multiclass task has one target"):
        load_table(file, target_columns=["kind", "toxic"], task="multiclass")


def test_several_columns_of_smiles_are_one_graph(tmp_path: Path) -> None:
    file = write(tmp_path, "solute,solvent,y\nCCO,O,1\nCC,,2\n")
    problem, report = load_table(file, ["solute", "solvent"], split_sizes=(1.0, 0.0, 0.0))
    assert problem.graphs.sizes.tolist() == [4]
    assert report.left_out == {2: "no SMILES"}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("smiles,y\n", {}, "has no"),
        ("", {}, "cannot be read as a table"),
        ("smiles,y\nxyz,1\n", {}, "has no row to learn from; row 1: 'xyz' is not a SMILES"),
        ("smile,y\nCC,1\n", {}, "has no column 'smiles'; did you mean 'smile'?"),
        (
            "SMILES,y\nCC,1\n",
            {},
            r"did you mean 'SMILES'? It has SMILES, y. Name the column of SMILES with -s (smiles_columns).",
        ),
        ("smiles,y\nCC,1\n", {"target_columns": ["z"]}, "has no column 'z'. It has smiles, y"),
        ("smiles,y\nCC,word\n", {}, "has no column of numbers except smiles"),
        ("smiles,y\nCC,word\n", {"target_columns": ["y"]}, "If the labels are names of classes, use the task multiclass."),
        ("smiles,y,s\nCC,1,test\n", {"splits_column": "s", "target_columns": ["y"]}, "leaves no row for training"),
        ("smiles,y\nCC,1\n", {"task": "multiclass"}, "holds 1 classes, expected two or more"),
    ],
)
def test_tables_that_cannot_be_learned_from(tmp_path: Path, text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:
        load_table(write(tmp_path, text), **options)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        read_table(tmp_path / "none.csv")
    for name in ("t.tsv", "T.TSV"):
        table, wrong = read_table(write(tmp_path, "smiles\ty\nCC\t007\n", name))
        assert table["y"].tolist() == ["007"]  # as it stands
        assert not wrong
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfsmiles,y\nCC,1\n")
    assert list(read_table(tmp_path / "bom.csv")[0].columns) == ["smiles", "y"]
    (tmp_path / "utf32.csv").write_bytes("smiles,y\nCC,1\n".encode("utf-32"))
    with pytest.raises(ValueError, match="it is UTF-32 text"):
        read_table(tmp_path / "utf32.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize(
    ("text", "encoding", "note"),
    [
        ("smiles;y;note\r\nCC;-1,5;größer, 5 µm\r\nCCO;2;\r\n", "cp1252", "columns separated by semicolons, decimal commas in 'y', text in Windows-1252"),
        ("smiles\ty\tnote\r\nCC\t-1,5\tgrößer, 5 µm\r\nCCO\t2\t\r\n", "utf-16", "columns separated by tabs, decimal commas in 'y', text in UTF-16"),
        ('"smiles";"y";"note"\nCC;-1.5;"größer, 5 µm"\nCCO;2;\n', "utf-8", "columns separated by semicolons"),
        ('smiles,y,note\nCC,-1.5,"größer, 5 µm"\nCCO,2,\n', "latin-1", "text in Windows-1252"),
    ],
)  # fmt: skip
def test_tables_as_excel_saves_them(tmp_path: Path, name: str, text: str, encoding: str, note: str) -> None:
    content = text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    table, wrong = read_table(tmp_path / name)
    assert table.to_dict("list") == {"smiles": ["CC", "CCO"], "y": ["-1.5", "2"], "note": ["größer, 5 µm", ""]}
    assert not wrong
    assert table.attrs["note"] == f"{name} was read with {note}"
    problem, _ = load_table(tmp_path / name, split_sizes=(1.0, 0.0, 0.0))
    assert problem.y.tolist() == [[-1.5], [2.0]]


def test_a_table_whose_encoding_is_found_by_another_pass(tmp_path: Path) -> None:
    """The rows are read to the end, also if the letter that decides comes after the first block of text that was read."""
    file = tmp_path / "t.csv"
    rows = [f"C,{n}" for n in range(4000)]
    file.write_bytes("\n".join(["smiles,y", *rows, "größer,1", ""]).encode("cp1252"))
    table = TableFile(file).source
    first = table.rows()
    assert next(first)[0] == ["C", "0"]
    assert table.count() == 4001  # this pass finds the encoding
    assert [cells for cells, _ in first][-1] == ["größer", "1"]


def test_rows_before_the_first_western_letter_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"smiles,y\n" + b"CC,1\n" * 50_000 + b"CCO,\xe9\n")
    assert read_table(tmp_path / "t.csv")[0]["y"].tolist() == [*["1"] * 50_000, "é"]


@pytest.mark.parametrize(
    "content",
    [
        "smiles,y\nCC,привет\n".encode("cp1251"),
        "smiles,y\nCC,テスト\n".encode("shift-jis"),
        "smiles,y\nCC,é\n".encode() + b"CC,\xe9\n",  # some UTF-8
        b"smiles,y\nCC,\x80\x81\n",
        b"smiles,y\nCC,\xe9\0\n",
        "smiles,y\nCC,1\n".encode("utf-16-le"),
        "smiles,y\nCC,1\n".encode("utf-16") + b"C",
        b"smiles\ty;z\nCC\t1;2\n",
    ],
)
def test_text_that_can_be_read_in_two_ways_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"cannot be read as a table \(.*save it as CSV in UTF-8|has semicolons and tabs in its header"
    ):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["1,5", "2", "-,5e3"], ["1.5", "2", "-.5e3"]),
        (["1.5", "2"], ["1.5", "2"]),
        (["1,234", "0,5"], ["1.234", "0.5"]),
        (["2,3-dimethylbutane", "1,2"], ["2,3-dimethylbutane", "1,2"]),  # words
        (["1,5", "nothing", "2,5"], ["1.5", "nothing", "2.5"]),
        (["1,5", "2.5"], None),
        (["1,5", "1.234,5"], None),
        (["1,5", "1,234,567"], None),
        (["1,234", "5,678"], None),
    ],
)
@pytest.mark.parametrize("sign", [";", "\t"])
def test_decimal_commas(tmp_path: Path, cells: list[str], read: list[str] | None, sign: str) -> None:
    file = write(
        tmp_path, "".join(f"{sign.join(row)}\n" for row in zip(["smiles", *["CC"] * len(cells)], ["y", *cells], strict=True))
    )
    if read is None:
        with pytest.raises(ValueError, match="'y' has numbers such as .*, so it is not clear whether a comma is the decimal sign"):
            read_table(file)
        with pytest.raises(ValueError, match="not clear"):
            TableFile(file).count()
    else:
        assert read_table(file)[0]["y"].tolist() == read


def test_commas_between_columns_come_first(tmp_path: Path) -> None:
    table, _ = read_table(write(tmp_path, 'smiles,y;z\nCC,"1,5"\n'))
    assert table.to_dict("list") == {"smiles": ["CC"], "y;z": ["1,5"]}


def test_every_line_is_a_row(tmp_path: Path) -> None:
    """Blank lines, too many and too few fields, commas at the end, quotes with line breaks."""
    table, wrong = read_table(write(tmp_path, 'smiles,y\nCC,1\n\nCCC\nCO,2,extra\n"C\nC",3\nCN,4,,\n'))
    assert table["smiles"].tolist() == ["CC", "", "CCC", "CO", "C\nC", "CN"]
    assert table["y"].tolist() == ["1", "", "", "2", "3", "4"]
    assert wrong == {3: "the row has 3 fields, expected 2"}


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zip", ".GZ", ".Zip"])
def test_compressed_tables(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"t.csv{ending}"
    pd.DataFrame({"smiles": ["CC"], "y": ["1"]}).to_csv(file, index=False)
    assert read_table(file)[0]["smiles"].tolist() == ["CC"]
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(ValueError, match="cannot be read as a table"):
        read_table(file)


def test_tables_with_a_wrong_header(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has 2 columns named 'y'"):
        read_table(write(tmp_path, "smiles,y,y\nCC,1,2\n"))
    with pytest.raises(ValueError, match="Columns must be separated by commas"):
        load_table(write(tmp_path, "smiles;y,z\nCC;1\n"))
    with pytest.raises(ValueError, match="column 'y' was given twice"):
        load_table(write(tmp_path, "smiles,y\nCC,1\n"), target_columns=["y", "y"])


def test_a_table_that_is_only_tested(tmp_path: Path) -> None:
    problem, report = load_table(write(tmp_path, "smiles,y\nCC,1\nCC,2\nCCC,3\n"), split="none")
    assert {split: ids.tolist() for split, ids in problem.splits.items()} == {"test": [0, 1, 2]}
    assert not any("has no rows" in line for line in report.lines())
    with pytest.raises(
        ValueError, match="has no row to evaluate; row 1: y is 'word', expected a number, or an empty cell for a missing label.$"
    ):
        load_table(write(tmp_path, "smiles,y\nCC,word\n"), target_columns=["y"], split="none")


def test_names_of_classes_are_only_thought_of_where_labels_are_words(tmp_path: Path) -> None:
    for label in ("", "1e39"):
        with pytest.raises(ValueError, match="has no row to learn from") as error:
            load_table(write(tmp_path, f"smiles,y\nCC,{label}\n"), target_columns=["y"])
        assert "names of classes" not in str(error.value)


def test_what_is_said_of_repeated_molecules_is_true(tmp_path: Path) -> None:
    file = write(tmp_path, "smiles,y,s\nCC,1,train\nCC,2,test\nCCC,3,train\nCCO,4,val\n")
    _, report = load_table(file, target_columns=["y"], splits_column="s")
    assert "1 row repeats a molecule; all are kept, 1 in another split" in report.lines()
    _, report = load_table(file, target_columns=["y"], split_sizes=(1.0, 0.0, 0.0))
    assert "1 row repeats a molecule; all are kept, in the same split" in report.lines()
    assert "no rows are left for val and test, so nothing measures the model" in report.lines()


def test_classes_that_are_one_number_keep_one_order(tmp_path: Path) -> None:
    file = write(tmp_path, "smiles,k\nCC,1.0\nCCC,01\nCCO,1\nCCN,0\n")
    assert load_table(file, target_columns=["k"], task="multiclass", split_sizes=(1.0, 0.0, 0.0))[0].classes == [
        "0",
        "01",
        "1",
        "1.0",
    ]


def test_a_target_without_training_labels(tmp_path: Path) -> None:
    file = write(tmp_path, "smiles,a,b,s\nCC,1,,train\nCCC,2,1,test\n")
    with pytest.raises(ValueError, match="b has no label in the 1 training rows"):
        load_table(file, target_columns=["a", "b"], splits_column="s")


def test_a_very_large_molecule() -> None:
    assert canonical("C" * 5000) == "C" * 5000


# -- a SMILES is read once ---------------------------------------------------------------------------------------------

TRICKY = [
    "[H]O[H]", "[2H]C([2H])O", "[H][H]", "[H+]", "[H]/C(C)=C(/F)Cl", "F/C=C/F", "F/C=C\\F", "C/C=C/C=C\\C", "N[C@@H](C)C(=O)O",
    "N[C@H](C)C(=O)O", "[C@](C)(C)(C)C", "CC(C)(C)[C@@H](C)C", "C[C@H]1CC[C@@H](C)CC1", "[nH]1cccc1", "c1cc[nH]c1", "O=c1cc[nH]cc1",
    "[Na+].[Cl-]", "CS(=O)(=O)C", "C[N+](=O)[O-]", "CN(=O)=O", "[Fe]", "[O-][n+]1ccccc1", "C1CC2CC1CC2", "[CH3]", "[O]", "*C", "CC*",
    "C[Si](C)(C)C", "F[P-](F)(F)(F)(F)F", "C/C=N/O", "CC(=NO)C", "[13CH4]", "C1=CC=CC=C1", "[H]N([H])C", "[H]C([H])([H])[H]",
]  # fmt: skip


def as_rdkit_reads_it(text: str) -> None:
    """Graph, spelling and scaffold are those of the molecule that RDKit makes of the text in one go."""
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        plain = Molecule(text, Chem.MolFromSmiles(text))
    ours = Molecule.read(text)
    for key in ("x", "edge_index", "edge_attr"):
        assert torch.equal(ours.graph()[key], plain.graph()[key]), (text, key)
    assert ours.canonical() == plain.canonical()
    assert ours.scaffold() == plain.scaffold(), text


@pytest.mark.parametrize("text", TRICKY)
def test_a_molecule_is_what_rdkit_makes_of_it(text: str) -> None:
    as_rdkit_reads_it(text)


@pytest.mark.parametrize("name", ["esol.csv", pytest.param("Lipophilicity.csv.xz", marks=pytest.mark.slow)])
def test_molecules_of_real_tables_are_what_rdkit_makes_of_them(real_data: Path, name: str) -> None:
    if not (real_data / name).is_file():
        pytest.skip(f"{real_data} has no {name}")
    table, _ = read_table(real_data / name)
    column = next(column for column in table.columns if column.lower() == "smiles")
    for text in table[column]:
        as_rdkit_reads_it(text.strip())


@pytest.mark.parametrize("split", ["random", "scaffold_balanced"])
def test_a_row_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str) -> None:
    from rdkit import Chem

    rows = ["C" * n + end for n in range(1, 8) for end in ("", "O", "N", "Cl")] + ["c1ccccc1" + "C" * n for n in range(8)]
    bad = ["xyz", "C(C)(C)(C)(C)C"]  # parsed once more, to say what is wrong
    file = write(tmp_path, "smiles,y\n" + "".join(f"{text},{len(text)}\n" for text in [*rows, *bad, ""]))
    read: list[str] = []
    original = Chem.MolFromSmiles
    monkeypatch.setattr(Chem, "MolFromSmiles", lambda text, **options: read.append(text) or original(text, **options))
    _, report = load_table(file, split=split)
    assert len(report.left_out) == 3
    assert read == [*rows, *(text for text in bad for _ in range(2))]
    from reign.train import Recipe, load, train
    from reign.train.engine.execution import make_fabric

    settings = {"model": {"name": "mpnn", "hidden_channels": 4, "num_layers": 1}, "train": {"epochs": 1}}
    recipe = Recipe.check({"data": {"path": str(file), "split": split}, **settings})
    read.clear()
    train(recipe, tmp_path / "run", fabric=make_fabric(accelerator="cpu"))
    assert read == [*rows, *(text for text in bad for _ in range(2))]
    predictor = load(tmp_path / "run")
    for work in (
        lambda: predictor.predict_file(file),
        lambda: predictor.predict([*rows, *bad]),
        lambda: predictor.evaluate("test"),
    ):
        read.clear()
        work()
        assert read == [*rows, *(text for text in bad for _ in range(2))]


# -- what looks wrong before training ------------------------------------------------------------------------------------

NUMBER_OF_ATOMS = ["C" * n + end for n in range(1, 9) for end in ("", "O", "N")]


def test_molecules_in_two_splits_and_contradicting_labels(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "smiles,y,z,s\nCCO,1,0.5,train\nOCC,2,0.5,test\nxyz,3,1,train\nCC,3,,train\nCC,3,1,train\nC(C)O,8,2,train\nCCC,4,1,val\nCO,5,3,train\n",
    )
    _, report = load_table(file, target_columns=["y", "z"], splits_column="s")
    assert report.in_several_splits == [{"smiles": "CCO", "rows": {"train": [1, 6], "test": [2]}}]
    assert report.contradicting_labels == [
        {"smiles": "CCO", "target": "y", "rows": [1, 2, 6], "labels": [1.0, 2.0, 8.0]},
        {"smiles": "CCO", "target": "z", "rows": [1, 2, 6], "labels": [0.5, 0.5, 2.0]},
    ]
    assert report.warnings == [
        "1 molecule is in more than one split, as in rows 1 (train) and 2 (test); all are kept, and results on them look better than they are",
        "1 molecule has contradicting labels, as in rows 1 and 6, where y is 1 and 8; all are kept, and a model cannot match them all",
    ]
    record = report.record()
    assert record["lines"] == report.lines()
    assert record["left_out"] == {3: "'xyz' is not a SMILES"}
    _, tested = load_table(file, target_columns=["y", "z"], split="none")
    assert (len(tested.contradicting_labels), tested.warnings) == (2, [])


def test_classes_that_contradict(tmp_path: Path) -> None:
    file = write(tmp_path, "smiles,k\nCCO,red\nOCC,blue\nCC,red\n")
    _, report = load_table(file, task="multiclass", target_columns=["k"], split_sizes=(1.0, 0.0, 0.0))
    assert report.warnings == [
        "1 molecule has contradicting labels, as in rows 1 and 2, where k is red and blue; all are kept, and a model cannot match them all"
    ]


def test_one_molecule_under_two_conditions_is_no_contradiction(tmp_path: Path) -> None:
    file = write(tmp_path, "smiles,y,t\nCCO,1,20\nOCC,2,30\nCC,3,20\nCCC,1,20\nCCC,2,20\n")
    options: dict[str, Any] = {"target_columns": ["y"], "split_sizes": (1.0, 0.0, 0.0)}
    assert len(load_table(file, **options)[1].contradicting_labels) == 2
    _, report = load_table(file, **options, descriptors=Descriptors(["t"], featurizers=["morgan_count"]))
    assert [each["rows"] for each in report.contradicting_labels] == [[4, 5]]


@pytest.mark.parametrize(
    ("labels", "task", "warning"),
    [
        (["0", "1", "1.0", "0", ""], "regression", "y holds only 0 and 1, and is trained as regression; for probabilities of classes, use -t classification"),
        (["0", "1", "1.0", "0", ""], "classification", None),
        (["1.5", "1.5", "", "1.5", "1.5"], "regression", "y has the same label (1.5) in all training rows"),
        (["1", "1", "1", "1", "1"], "classification", "y has the same label (1) in all training rows"),
        (["-3", "1e38", "2", "0.5", "1"], "regression", "y has a label far from all others, such as 1e+38 in row 2, where most are from -3 to 2; if this is"),
        (["-3", "-9999", "2", "0.5", "1"], "regression", "y has a label far from all others, such as -9999 in row 2"),
        (["-3", "100", "2", "0.5", "1"], "regression", None),
        (["1e-9", "2e-6", "5e-4", "1e-7", "3e-6"], "regression", None),
        (["0", "0", "0", "0", "5"], "regression", None),
    ],
)  # fmt: skip
def test_labels_that_look_wrong(tmp_path: Path, labels: list[str], task: str, warning: str | None) -> None:
    rows = zip(["C", "CC", "CCC", "CO", "CCO"], labels, strict=True)
    file = write(tmp_path, "smiles,y\n" + "".join(f"{smiles},{label}\n" for smiles, label in rows))
    _, report = load_table(file, target_columns=["y"], task=task, split_sizes=(1.0, 0.0, 0.0))
    assert len(report.warnings) == (warning is not None)
    assert warning is None or report.warnings[0].startswith(warning)


def test_a_line_names_a_few_targets(tmp_path: Path) -> None:
    names = [f"t{i}" for i in range(9)]
    file = write(tmp_path, f"smiles,{','.join(names)}\nC{',0' * 9}\nCC{',1' * 9}\n")
    _, report = load_table(file, split_sizes=(1.0, 0.0, 0.0))
    assert len(report.warnings) == 1
    assert report.warnings[0].startswith("t0, t1, t2, t3, t4 and 4 more hold only 0 and 1, and are trained as regression")


def default_targets(folder: Path, **columns: Sequence[object]) -> tuple[list[str], list[str]]:
    frame = pd.DataFrame({"smiles": NUMBER_OF_ATOMS, **columns})
    frame.to_csv(folder / "mols.csv", index=False)
    problem, report = load_table(folder / "mols.csv", split_sizes=(1.0, 0.0, 0.0))
    return problem.targets, report.warnings


@pytest.mark.parametrize("name", ["id", "ID", "mol_id", "CompoundID", "pubchem_cid", "Unnamed: 0", "index"])
def test_identifiers_are_no_default_targets(tmp_path: Path, name: str) -> None:
    y = [math.sin(n) for n in range(24)]
    reason = f"{name} is not a target, because it is named like an identifier, and holds whole numbers; --target-columns chooses the targets"
    assert default_targets(tmp_path, **{name: [7 * n % 97 for n in range(24)], "y": y}) == (["y"], [reason])
    assert default_targets(tmp_path, **{name: y}) == ([name], [])  # no whole numbers
    assert default_targets(tmp_path, **{name: [n // 6 for n in range(24)], "y": y}) == ([name, "y"], [])  # rather classes
    problem, report = load_table(tmp_path / "mols.csv", target_columns=[name])
    assert (problem.targets, report.warnings) == ([name], [])
    with pytest.raises(ValueError, match=r"has no column of numbers except smiles, .* \(which is named like an identifier"):
        default_targets(tmp_path, **{name: range(24)})


@pytest.mark.parametrize("name", ["%", "溶解度"])
def test_names_in_other_alphabets_are_not_those_of_identifiers(tmp_path: Path, name: str) -> None:
    assert default_targets(tmp_path, **{name: [7 * n % 97 for n in range(24)]}) == ([name], [])


def test_a_column_of_numbers_with_a_few_words_is_named(tmp_path: Path) -> None:
    y = [math.sin(n) for n in range(24)]
    words = [*["low"] * 12, *range(12)]  # not more numbers than words
    reason = "z is not a target, because it holds 'n.d.' in row 4, though most of its cells are numbers; --target-columns chooses the targets"
    assert default_targets(tmp_path, z=[*y[:3], "n.d.", *y[4:]], words=words, y=y) == (["y"], [reason])
    with pytest.raises(ValueError, match=r"except smiles, z \(which holds '>5' in row 1, though most of its cells are numbers\)"):
        default_targets(tmp_path, z=[">5", *y[1:]])


def test_a_column_that_numbers_the_rows_is_no_default_target(tmp_path: Path) -> None:
    y = [math.sin(n) for n in range(24)]
    shuffled = [5 + (7 * n) % 24 for n in range(24)]
    targets, warnings = default_targets(tmp_path, mol=shuffled, y=y)
    assert (targets, warnings) == (
        ["y"],
        ["mol is not a target, because it numbers the rows without a gap; --target-columns chooses the targets"],
    )
    assert default_targets(tmp_path, mol=shuffled) == (["mol"], [])  # there is nothing else to predict
    assert default_targets(tmp_path, mol=[2 * n for n in shuffled], y=y)[0] == ["mol", "y"]


def test_columns_that_follow_from_the_structure_are_named(tmp_path: Path) -> None:
    from rdkit.Chem import Descriptors as D
    from rdkit.Chem import MolFromSmiles

    weight = [round(D.MolWt(MolFromSmiles(text))) for text in NUMBER_OF_ATOMS]
    y = [math.sin(n) for n in range(24)]
    targets, warnings = default_targets(tmp_path, mass=weight, cLogP=y, y=y)
    assert targets == ["mass", "cLogP", "y"]
    assert warnings == [
        "mass (the molecular weight), cLogP (Crippen's logP) are targets, though they seem to follow from the structure; --target-columns chooses the targets"
    ]
    assert load_table(tmp_path / "mols.csv", target_columns=["mass"])[1].warnings == []


def test_the_default_targets_of_an_older_run_stay(tmp_path: Path) -> None:
    default_targets(tmp_path, id=range(24), y=[math.sin(n) for n in range(24)])
    problem, report = load_table(tmp_path / "mols.csv", known_targets=["id", "y"])
    assert (problem.targets, report.chosen, report.warnings) == (["id", "y"], False, [])
