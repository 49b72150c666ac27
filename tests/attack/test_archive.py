"""``reign export`` and its zips: what is in them, and which zips of strangers are refused."""

import gc
import json
import os
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from canary import Bomb

import reign
from commands import fails, works
from reign.train.runs import share
from reign.train.runs.share import unpack

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="session")
def model(trained: Path) -> Path:
    """The exported run."""
    file = trained / "model.zip"
    share.export(trained / "run", file)
    return file


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))


def unpacked() -> list[str]:
    """The temporary folders that are there."""
    gc.collect()
    return os.listdir(tempfile.gettempdir())


def changed(model: Path, file: Path, drop: str = "") -> zipfile.ZipFile:
    """The zip without one of its files, still open."""
    with zipfile.ZipFile(model) as old:
        made = zipfile.ZipFile(file, "w")
        for name in old.namelist():
            if name != drop:
                made.writestr(name, old.read(name))
    return made


def test_what_is_exported(trained: Path, model: Path) -> None:
    said = works("export", trained / "run", "-o", "mine.zip").output
    assert "The model is in mine.zip: 9 files" in said
    assert Path("mine.zip").read_bytes() == model.read_bytes()  # the same run gives the same zip
    with zipfile.ZipFile("mine.zip") as made:
        names = made.namelist()
        assert names == [
            "README.md", "recipe.json", "problem.json", "summary.json", "calibration.json", "domain.json", "seed-0/scale.json",
            "seed-0/last/config.json", "seed-0/last/model.safetensors",
        ]  # fmt: skip
        everything = b"".join(made.read(name) for name in names if not name.endswith("safetensors"))
        card = made.read("README.md").decode()
        recipe = json.loads(made.read("recipe.json"))
    assert str(trained).encode() not in everything
    assert b"/tmp" not in everything
    assert b"CCCCCC" not in everything  # no training molecule
    assert recipe["data"]["path"] == "mols.csv"
    summary = json.loads((trained / "run" / "summary.json").read_text())
    assert f"| rmse | {summary['train']['mean']:.4g} | {summary['val']['mean']:.4g} | {summary['test']['mean']:.4g} |" in card
    splits = json.loads((trained / "run" / "seed-0" / "splits.json").read_text())
    assert f"- Graphs: {len(splits['train'])} train, {len(splits['val'])} val, {len(splits['test'])} test" in card
    assert "- Targets: size" in card
    assert f"- torch {json.loads((trained / 'run' / 'environment.json').read_text())['torch']}" in card
    assert "`--nearest` is not possible" in card


def test_it_predicts_the_same_in_a_new_process(trained: Path, model: Path) -> None:
    frame = reign.load(trained / "run").predict(["CCO", "CCCC"])
    code = "import sys, reign; print(*reign.load(sys.argv[1]).predict(['CCO', 'CCCC'])['size_pred'].tolist())"
    env = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "TMPDIR": tempfile.gettempdir()}
    done = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True, text=True, env=env)
    assert [float(word) for word in done.stdout.split()] == frame["size_pred"].tolist(), done.stderr
    assert unpacked() == []


def test_commands_take_it(trained: Path, model: Path) -> None:
    for name in (model, trained / "run"):
        works("predict", "-i", trained / "mols.csv", "--model-paths", name, "-o", f"{name.name}.csv", "-q")
        works("fingerprint", "-i", trained / "mols.csv", "--model-paths", name, "-o", f"{name.name}.fps.csv", "-q")
    assert Path("model.zip.csv").read_bytes() == Path("run.csv").read_bytes()
    assert Path("model.zip.fps.csv").read_bytes() == Path("run.fps.csv").read_bytes()
    assert "seed-0: mols.csv rmse" in works("evaluate", model, "-i", trained / "mols.csv", "-q").output
    said = fails("evaluate", model, "-q")
    assert "is an exported model, which has no splits; evaluate on a table with -i FILE." in said
    assert "--with-molecules" in fails("predict", "-i", trained / "mols.csv", "--model-paths", model, "--nearest", "1")
    works("export", trained / "run", "-o", "near.zip", "--with-molecules")
    works("predict", "-i", trained / "mols.csv", "--model-paths", "near.zip", "--nearest", "1", "-o", "near.csv", "-q")
    rows = [int(row) - 1 for row in json.loads((trained / "run/seed-0/splits.json").read_text())["train"]]
    assert pd.read_csv("near.csv")["nearest_similarity"][rows].tolist() == [1.0] * len(rows)
    assert "the run nowhere does not exist" in fails("export", "nowhere", "-o", "x.zip")
    assert unpacked() == []


NAMES = [
    "../evil", "/evil", "seed-0/../../evil", "seed-0\\..\\evil", "C:\\evil", "seed-0/best/../../../evil", "checkpoint.pt", "seed-0/checkpoint.pt",
    "seed-0/best/model.pkl", "README.md/x", "evil\nREADME.md", "seed-0/best/", "~/evil", "recipe.yaml", "seed-0/last/config.json\n",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_refused(model: Path, tmp_path: Path, name: str) -> None:
    with changed(model, Path("bad.zip")) as made:
        made.writestr(zipfile.ZipInfo(name), "evil")
    before = set(tmp_path.parent.rglob("*"))
    with pytest.raises(
        ValueError, match=r"bad\.zip is not a model that reign export made: it has the unexpected file .*; do not use it\."
    ):
        unpack(Path("bad.zip"))
    assert set(tmp_path.parent.rglob("*")) == before
    assert not Path("/evil").exists()


def entry(name: str = "training.csv", **fields: Any) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


@pytest.mark.parametrize(
    ("made", "content", "reason"),
    [
        (entry(external_attr=(stat.S_IFLNK | 0o777) << 16), "/etc/passwd", "is a link or a special file"),
        (entry(external_attr=(stat.S_IFIFO | 0o644) << 16), "x", "is a link or a special file"),
        (entry(compress_type=zipfile.ZIP_LZMA), "x", "is compressed by method 14"),
        (entry("summary.json"), "{}", "several of its files have the same name"),
        (entry(compress_type=zipfile.ZIP_DEFLATED), "0" * 5_000, "training.csv has 0.0 GB unpacked"),
        (
            entry("seed-1/best/model.safetensors", compress_type=zipfile.ZIP_DEFLATED),
            "0" * 600_000,
            "GB unpacked, expected at most",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_files_that_are_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch, made: zipfile.ZipInfo, content: str, reason: str
) -> None:
    monkeypatch.setattr(share, "LARGEST_TEXT", 4_000)
    monkeypatch.setattr(share, "LARGEST", 600_000)
    with changed(model, Path("bad.zip")) as file:
        file.writestr(made, content)
    assert reason in fails("predict", "-i", "x.csv", "--model-paths", "bad.zip")
    assert unpacked() == []


def test_a_bomb_that_lies_about_its_size(model: Path) -> None:
    """The file unpacks to more than its header says: no more than that is written, and the checksum fails."""
    with changed(model, Path("bad.zip")) as made:
        made.writestr("training.csv", b"0" * 10_000_000, zipfile.ZIP_DEFLATED)
    content = bytearray(Path("bad.zip").read_bytes())
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = (100).to_bytes(4, "little")
    Path("bad.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.zip cannot be read as a model \(.*CRC"):
        unpack(Path("bad.zip"))


def test_many_files_and_encrypted_files(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with changed(model, Path("many.zip")) as made:
        for number in range(5_000):
            made.writestr(f"seed-{number}/fold-1/scale.json", "{}")
    assert "it has 5,009 files, expected at most 4,000" in fails("predict", "-i", "x.csv", "--model-paths", "many.zip")
    content = bytearray(model.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    Path("locked.zip").write_bytes(content)
    assert "README.md is encrypted" in fails("predict", "-i", "x.csv", "--model-paths", "locked.zip")


def test_damaged_zips(model: Path, trained: Path) -> None:
    whole = model.read_bytes()
    Path("half.zip").write_bytes(whole[: len(whole) // 2])
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    Path("flipped.zip").write_bytes(flipped)
    Path("text.zip").write_text("not a zip")
    for name in ("half.zip", "flipped.zip", "text.zip"):
        said = fails("predict", "-i", trained / "mols.csv", "--model-paths", name)
        assert f"{name} cannot be read as a model (" in said
        assert "expected the folder of a run or a zip made by reign export." in said
    for drop, reason in (
        ("recipe.json", "less.zip holds no recipe.yaml"),
        ("summary.json", "the run in less.zip is not finished"),
        ("problem.json", "less.zip/problem.json is damaged"),
        ("seed-0/scale.json", "less.zip/seed-0/scale.json is damaged"),
        ("seed-0/last/config.json", "less.zip/seed-0/last holds no config.json"),
    ):
        changed(model, Path("less.zip"), drop).close()
        assert reason in fails("predict", "-i", trained / "mols.csv", "--model-paths", "less.zip")


def test_nothing_in_a_zip_is_run(model: Path, trained: Path, tmp_path: Path) -> None:
    import pickle

    canary = tmp_path / "canary"
    content = pickle.dumps(Bomb(str(canary)))
    for name in ("seed-0/last/model.safetensors", "summary.json", "recipe.json", "calibration.json"):
        with changed(model, Path("evil.zip"), name) as made:
            made.writestr(name, content)
        fails("predict", "-i", trained / "mols.csv", "--model-paths", "evil.zip")
        assert not canary.exists()
    with changed(model, Path("out.zip"), "summary.json") as made, zipfile.ZipFile(model) as old:
        summary = json.loads(old.read("summary.json"))
        summary["members"][0]["folder"] = "../../elsewhere"
        made.writestr("summary.json", json.dumps(summary))
    assert "outside the run; do not use this run" in fails("predict", "-i", "x.csv", "--model-paths", "out.zip")
