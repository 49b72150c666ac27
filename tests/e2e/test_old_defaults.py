"""Models whose defaults have changed: what commit 8599632 saved of them still gives the same numbers, and continues to the same end.

``defaults_8599632.tar.xz`` was made by that commit, with ``python tests/e2e/test_old_defaults.py FILE.tar.xz``. For each model NAME it holds:

    NAME/saved        a model that ``save_pretrained`` wrote, in float64
    NAME/whole        a run, and NAME/model.zip, its export
    NAME/half         the same run when it was stopped in its second epoch
    NAME/out.json     the outputs of the saved model, and of the model of the run, in float64
"""

import json
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

import reign
from circles import Stop, circle, register
from commands import works
from reign.disk import read_json, read_state
from reign.train import Recipe, train

ARCHIVE = Path(__file__).parent / "data" / "defaults_8599632.tar.xz"
NAMES = {
    "gnnak": {"policy": "ego:2", "inner_layers": 2},
    "gnnakctx": {"policy": "ego+:1", "combine": "cat", "remark": True, "num_layers": 2},
    "ngnn": {"policy": "ego:1", "outer_layers": 1},
    "idgnn": {"policy": "ego+:1"},
}


def recipe(name: str) -> Recipe:
    """Training in float64 whose settings leave out what has another default today."""
    steps = {"epochs": 3, "batch_size": 4, "precision": "64-true", "checkpoint_seconds": 0.0, "report": "last"}
    model = {"name": name, "hidden_channels": 3, "num_layers": 1, **NAMES[name]}
    return Recipe.check({"data": {"name": "split-circles"}, "model": model, "train": steps, "seeds": [0]}, "the test")


def outputs(model: Any) -> Tensor:
    """The outputs of a model for two graphs of the data set."""
    with torch.no_grad():
        found = [model.double().eval()(data.x.double(), data.edge_index) for data in (circle(5, 1), circle(8, 0))]
    return torch.cat(found)


def last_of(run: Path) -> Any:
    """The model of a run."""
    return reign.load(run / "seed-0" / "last")


def make(file: Path) -> None:
    """Make an archive with the version that is imported; this folder must be empty."""
    register()
    for name, options in NAMES.items():
        folder = Path(name)
        torch.manual_seed(0)
        given = {"num_layers": 1, **options}
        model = reign.build_model(name, 1, 3, given.pop("num_layers"), 2, **given).double()
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(0, 0.5)
        model.save_pretrained(folder / "saved")
        train(recipe(name), folder / "whole")
        with suppress(KeyboardInterrupt):
            train(recipe(name), folder / "half", callback=Stop())
        works("export", str(folder / "whole"), "-o", str(folder / "model.zip"))
        run = reign.load(folder / "whole").predict([circle(5, 1), circle(8, 0)])
        known = {"saved": outputs(model), "run": outputs(reign.load(folder / "whole" / "seed-0" / "last"))}
        (folder / "out.json").write_text(
            json.dumps({key: out.tolist() for key, out in known.items()} | {"predicted": run.to_dict("list")})
        )
    with tarfile.open(file, "w:xz") as archive:
        for each in sorted(place for name in NAMES for place in Path(name).rglob("*") if place.is_file()):
            if each.name != ".lock" and (each.parts[1] == "half" or each.name != "checkpoint.pt") and "best" not in each.parts:
                archive.add(each)


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))
    register()
    return tmp_path


def same(one: Any, other: Any) -> None:
    ours, theirs = (torch.as_tensor(values, dtype=torch.float64) for values in (one, other))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_model_predicts_the_same(name: str, old: Path) -> None:
    known = read_json(old / name / "out.json")["saved"]
    model = reign.load(old / name / "saved")
    same(outputs(model), known)
    model.save_pretrained(old / "again")  # which is then a file of today, with all that it needs
    assert read_json(old / "again" / "config.json")["format"] == 2
    same(outputs(reign.load(old / "again")), known)


@pytest.mark.parametrize("kind", ["whole", "model.zip"])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_and_its_zip_predict_the_same(name: str, kind: str, old: Path) -> None:
    known = read_json(old / name / "out.json")
    again = reign.load(old / name / kind).predict([circle(5, 1), circle(8, 0)])
    for column, values in known["predicted"].items():
        if all(isinstance(value, float) for value in values):
            same(again[column].tolist(), values)
    if kind == "whole":
        same(outputs(last_of(old / name / kind)), known["run"])
        works("export", str(old / name / kind), "-o", "again.zip")
        same(
            reign.load(old / "again.zip").predict([circle(5, 1), circle(8, 0)])["length_pred"].tolist(),
            known["predicted"]["length_pred"],
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_stopped_continues_to_the_same_end(name: str, old: Path) -> None:
    """Its model is built from the recipe of the run; afterwards recipe and checkpoint have the format of today."""
    from reign.train.runs.run import Run

    half = old / name / "half"
    assert "format" not in yaml.safe_load((half / "recipe.yaml").read_text())
    train(Run(half).continued(), half, resume=True)
    same(outputs(last_of(half)), read_json(old / name / "out.json")["run"])
    saved = yaml.safe_load((half / "recipe.yaml").read_text())
    assert saved["format"] == read_state(half / "seed-0" / "checkpoint.pt")["format"] == 2
    assert saved["model"]["graph_pooling"] == "mean"


def test_the_recipe_of_an_old_run_means_what_it_meant(old: Path) -> None:
    """Also where its file is given as a recipe of a new run, or the run as one to start from or to record."""
    from reign.experiments import find_recipe
    from reign.train.runs.build import model_of

    file = old / "ngnn" / "whole" / "recipe.yaml"
    expected = recipe("ngnn").model.model_dump() | {"readout": "mean", "graph_pooling": "mean"}
    assert find_recipe(str(file))[0].model.model_dump() == model_of(file.parent) == expected
    (old / "mine.yaml").write_text(file.read_text())  # a recipe of one's own has the defaults of today
    assert find_recipe(str(old / "mine.yaml"))[0].model == recipe("ngnn").model
    with (old / "mine.yaml").open("a") as out:
        out.write("format: 1\n")
    assert find_recipe(str(old / "mine.yaml"))[0].model.model_dump() == expected


def test_changes_of_the_recipe_of_an_old_run_mean_what_they_mean_today(old: Path) -> None:
    from reign.experiments import find_recipe

    file = str(old / "gnnak" / "whole" / "recipe.yaml")
    found = find_recipe(file, {"model": {"combine": "cat"}})[0].model
    assert found == find_recipe(file)[0].model.model_copy(update={"combine": "cat"})
    file = str(old / "ngnn" / "whole" / "recipe.yaml")
    found = find_recipe(file, {"model": {"name": "gnnak", "policy": "ego:1"}})[0].model
    assert found.options.keys().isdisjoint({"combine", "aggregation", "end_norm", "end_act"})


def test_files_of_a_newer_format_are_refused(old: Path) -> None:
    from reign.train.runs.run import Run

    for file, load in (("ngnn/saved/config.json", reign.load), ("ngnn/whole/recipe.yaml", lambda folder: Run(folder).recipe)):
        values = yaml.safe_load((old / file).read_text())
        (old / file).write_text(json.dumps(values | {"format": 3}))
        with pytest.raises(
            ValueError, match="has the format 3, expected a number up to 2; a newer one needs a newer version of reign"
        ):
            load((old / file).parent)


def test_a_zip_has_a_format(old: Path) -> None:
    works("export", "gnnak/whole", "-o", "new.zip")
    with zipfile.ZipFile(old / "new.zip") as archive:
        assert json.loads(archive.read("recipe.json"))["format"] == 2


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
