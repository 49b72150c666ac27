"""Table files: what they extend, and that their settings stay what they are."""

import hashlib
import json
from collections import defaultdict
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from reign.experiments import find_recipe, find_table, list_tables
from reign.experiments.paper import read_extended

RESOLVED = json.loads((Path(__file__).parent / "resolved_settings.json").read_text())


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", RESOLVED)
def test_the_settings_of_every_row_are_those_they_were(name: str) -> None:
    """The digests were made when every table file held all of its settings itself, and again where settings were changed on purpose."""
    table = find_table(name)
    expected = RESOLVED[name]
    if table.is_single:
        assert digest([table.settings]) == expected["rows"]["run"]
        return
    assert list(table.columns) == expected["columns"]
    assert list(table.rows) == list(expected["rows"])
    for row, about in table.rows.items():
        cells = {column: [table.settings_of(row, column, quick) for quick in (False, True)] for column in table.columns}
        assert digest([cells, about.paper, table.grid_of(row)]) == expected["rows"][row], row
    values = {column: about.value for column, about in table.columns.items()}
    quick = [table.quick.rows, table.quick.columns]
    about_table = [table.title, table.unit, table.factor, table.seeds, *quick, table.notes, table.quoted, values]
    assert digest(about_table) == expected["about"]


def test_a_recipe_with_too_many_parts() -> None:
    with pytest.raises(ValueError, match="'zinc/sun-ego/test/more' has 4 parts, expected TABLE, TABLE/ROW or TABLE/ROW/COLUMN"):
        find_recipe("zinc/sun-ego/test/more")


def test_all_tables_are_known() -> None:
    assert list_tables() == list(RESOLVED)
    assert not any(name.startswith("_") for name in list_tables())
    with pytest.raises(ValueError, match="unknown table or recipe '_zinc'"):
        find_table("_zinc")


def test_no_block_of_settings_stands_in_three_files() -> None:
    """Neither in the settings of a table nor in those of its quick look."""
    places: dict[str, set[str]] = defaultdict(set)

    def note(file: str, path: str, value: Any) -> None:
        if isinstance(value, dict):
            if len(value) > 1:
                places[f"{path}: {json.dumps(value, sort_keys=True)}"].add(file)
            for key, inner in value.items():
                note(file, f"{path}.{key}" if path else key, inner)

    for file in resources.files("reign.experiments.recipes").iterdir():
        if file.name.endswith(".yaml"):
            values = yaml.safe_load(file.read_text())
            for block in (values.get("settings", {}), values.get("quick", {}).get("settings", {})):
                note(file.name, "", block)
            note(file.name, "train", values.get("train", {}))
    assert len(places) > 20
    assert {place: files for place, files in places.items() if len(files) > 2} == {}


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_file_extends_a_recipe_by_name(tmp_path: Path) -> None:
    write(tmp_path, mine="extends: molecules\ndata: {path: mols.csv}\ntrain: {epochs: 3}\n")
    recipe, name = find_recipe(str(tmp_path / "mine.yaml"))
    assert name == "mine/run/test"
    assert (recipe.train.epochs, recipe.train.batch_size, recipe.model.options) == (3, 50, {"residual": True})


def test_a_file_extends_a_table_by_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        mine="extends: zinc\nsettings: {train: {epochs: 7}}\nrows: {mine: {title: Mine, settings: {model: {name: dss}}}}\n",
    )
    table = find_table(str(tmp_path / "mine.yaml"))
    assert list(table.rows) == [*find_table("zinc").rows, "mine"]
    assert table.recipe("id-gnn", "test").train.epochs == 7
    assert table.recipe("mine", "test").train.schedule.patience == 40


def test_a_file_extends_another_one(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    write(tmp_path, top="extends: deeper/middle.yaml\nmodel: {num_layers: 2}\n", bottom="data: {name: zinc}\nmodel: {name: ds}\n")
    write(tmp_path / "deeper", middle="extends: ../bottom.yaml\nmodel: {hidden_channels: 8, num_layers: 3}\n")
    assert read_extended(str(tmp_path / "top.yaml")) == {
        "data": {"name": "zinc"},
        "model": {"name": "ds", "hidden_channels": 8, "num_layers": 2},
    }


def test_a_row_extends_a_row_of_another_table(tmp_path: Path) -> None:
    """It takes the title, the settings and the grid, but not the numbers of the paper; its own values come first."""
    write(
        tmp_path,
        mine="extends: _zinc\ntitle: Mine\nrows:\n  ds: {extends: zinc/ds-ego, settings: {model: {hidden_channels: 8}}}\n"
        "  far: {extends: other.yaml/near, title: Far}\n",
        other="extends: _zinc\ntitle: Other\nrows: {near: {extends: zinc/gin, paper: {test: 0.5}, settings: {train: {epochs: 2}}}}\n",
    )
    table, zinc = find_table(str(tmp_path / "mine.yaml")), find_table("zinc")
    assert table.rows["ds"].title == zinc.rows["ds-ego"].title
    assert (table.rows["ds"].grid, table.rows["ds"].paper) == (zinc.rows["ds-ego"].grid, {})
    ours, theirs = (one.recipe(row, "test") for one, row in ((table, "ds"), (zinc, "ds-ego")))
    assert ours.train == theirs.train
    assert ours.model.hidden_channels == 8
    assert ours.model.options == theirs.model.options
    far = table.recipe("far", "test")
    assert (table.rows["far"].title, table.rows["far"].paper, far.train.epochs) == ("Far", {}, 2)
    assert far.model == zinc.recipe("gin", "test").model


def test_settings_of_single_cells(tmp_path: Path) -> None:
    text = """
extends: counting
rows:
  deep: {title: Deep, settings: {model: {name: sun, num_layers: 6}}, cells: {star: {model: {num_layers: 9}}}}
  like: {extends: mine.yaml/deep}
"""
    table = find_table(str(write(tmp_path, mine=text) / "mine.yaml"))
    depth = {
        (row, column): table.recipe(row, column).model.num_layers for row in ("deep", "like") for column in ("star", "4-cycle")
    }
    assert depth == {("deep", "star"): 9, ("deep", "4-cycle"): 6, ("like", "star"): 6, ("like", "4-cycle"): 6}
    (tmp_path / "mine.yaml").write_text(text.replace("cells: {star", "cells: {stars"))
    with pytest.raises(ValueError, match="rows.deep.cells has 'stars', expected columns of the table: triangle, "):
        find_table(str(tmp_path / "mine.yaml"))


def test_rows_extend_rows_of_their_own_file_and_of_each_other(tmp_path: Path) -> None:
    """What counts is whether a row extends itself, not whether its file does."""
    write(
        tmp_path,
        mine="extends: _zinc\ntitle: Mine\nrows: {a: {extends: other.yaml/x}, b: {title: B}, c: {extends: mine.yaml/b}}\n",
        other="extends: _zinc\ntitle: Other\nrows: {x: {extends: other.yaml/y}, y: {extends: mine.yaml/b, settings: {folds: 3}}}\n",
    )
    rows = find_table(str(tmp_path / "mine.yaml")).rows
    assert {name: (row.title, row.settings) for name, row in rows.items()} == {
        "a": ("B", {"folds": 3}),
        "b": ("B", {}),
        "c": ("B", {}),
    }


def test_a_row_of_a_table_that_extends_another(tmp_path: Path) -> None:
    """Both files have a part of the row."""
    write(
        tmp_path,
        low="extends: _zinc\ntitle: Low\nrows: {x: {title: X, settings: {folds: 3, train: {epochs: 2}}}}\n",
        high="extends: low.yaml\nrows: {x: {settings: {train: {epochs: 5}}}}\n",
        mine="extends: _zinc\ntitle: Mine\nrows: {a: {extends: high.yaml/x}}\n",
    )
    row = find_table(str(tmp_path / "mine.yaml")).rows["a"]
    assert (row.title, row.settings) == ("X", {"folds": 3, "train": {"epochs": 5}})


@pytest.mark.parametrize(
    ("extends", "message"),
    [
        ("zinc", "mine.yaml: rows.a.extends is 'zinc', expected TABLE/ROW, such as zinc/gin."),
        ("[zinc]", "mine.yaml: rows.a.extends is ['zinc'], expected TABLE/ROW"),
        ("zinc/gim", "mine.yaml: rows.a.extends is 'zinc/gim', but zinc has no such row; did you mean 'gin'"),
        ("zink/gin", "mine.yaml extends 'zink', which does not exist; did you mean 'zinc'?"),
        ("_zinc/gin", "rows.a.extends is '_zinc/gin', but _zinc has no such row. It has no rows."),
        ("mine.yaml/a", "mine.yaml: rows.a.extends is 'mine.yaml/a', but that row extends this one; remove one 'extends'."),
        ("odd.yaml/list", "rows.a.extends is 'odd.yaml/list', which is [1, 2], expected a row with a title and settings."),
        ("odd.yaml/none", "rows.a.extends is 'odd.yaml/none', which is None, expected a row"),
        ("odd.yaml/2", "but odd.yaml has no such row. It has list, none, 1, back."),
        ("odd.yaml/back", "mine.yaml: rows.a.extends is 'odd.yaml/back', but that row extends this one"),
        ("flat.yaml/near", "but flat.yaml has no such row. It has no rows."),
        (f"{'x' * 5000}.yaml/near", "does not exist"),
    ],
)
def test_rows_that_cannot_be_extended(tmp_path: Path, extends: str, message: str) -> None:
    write(
        tmp_path,
        mine=f"extends: _zinc\ntitle: Mine\nrows: {{a: {{extends: {extends}}}}}\n",
        odd="rows: {list: [1, 2], none: , 1: {title: One}, back: {extends: mine.yaml/a}}\n",
        flat="rows: [near]\n",
    )
    with pytest.raises(ValueError) as error:
        find_table(str(tmp_path / "mine.yaml"))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: zink", "mine.yaml extends 'zink', which does not exist; did you mean 'zinc'? Known: _paper, "),
        ("extends: none.yaml", "mine.yaml extends none.yaml, but the file"),
        ("extends: [zinc, tu]", "extends is ['zinc', 'tu'], expected the name of a table or recipe, or a YAML file"),
        ("extends: mine.yaml", "mine.yaml extends itself: "),
        ("extends: other.yaml", "mine.yaml extends itself: "),
    ],
)
def test_bases_that_cannot_be_extended(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, mine=f"{text}\ndata: {{name: zinc}}\n", other="extends: mine.yaml\n")
    with pytest.raises(ValueError) as error:
        find_table(str(tmp_path / "mine.yaml"))
    assert message in str(error.value)
