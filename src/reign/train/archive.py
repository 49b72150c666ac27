"""A model in one file: a zip with all that predictions need, which is safe to open.

README.md            a model card
recipe.json          the settings; tables are named without their folders
problem.json         the task, targets and classes
summary.json         the results, and which models there are
calibration.json     the calibration, if there is one
domain.json          ranges of the training molecules, if there are some, for warnings
training.csv         the training molecules, only if they were asked for
seed-0/scale.json    the scale of the targets
seed-0/last/         weights and arguments of a model (or best/; seed-0/fold-1/ in cross-validation)
"""

import json
import re
import shutil
import stat
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from reign.disk import first_line, replaced
from reign.train.domain import FILE as DOMAIN
from reign.train.model_card import model_card
from reign.train.nearest import FILE as TRAINING
from reign.train.run_folder import read_about
from reign.train.settings.config import Recipe
from reign.train.summary import read_summary

NAMES = re.compile(
    r"README\.md|(recipe|problem|summary|calibration|domain)\.json|training\.csv"
    r"|seed--?\d{1,10}/(fold-\d{1,6}/)?(scale\.json|(best|last)/(config\.json|model\.safetensors))"
)
MOST_FILES = 4_000
LARGEST = 2**31  # largest size of all files in bytes, unpacked
LARGEST_TEXT = 2**28  # largest size of a file other than weights
DATE = (1980, 1, 1, 0, 0, 0)  # of all files, so that the same run gives the same zip


def export(run: str | Path, output: str | Path, molecules: bool = False) -> list[str]:
    """Write a finished run as one zip, and return the names of the files in it.

    Checkpoints, splits, predictions, the command and the names of folders are left out.

    Args:
        run: the folder of the run.
        output: the zip to write.
        molecules: whether to keep the training molecules, with their rows, for ``nearest`` in predictions.
    """
    run, output = Path(run), Path(output)
    about, summary = read_about(run), read_summary(run)
    recipe = Recipe.load(run / "recipe.yaml")
    if molecules and not (run / TRAINING).is_file():
        raise ValueError(f"{run} does not have the molecules that it was trained on ({TRAINING}); leave --with-molecules out.")
    texts: dict[str, Any] = {
        "recipe.json": _without_folders(recipe),
        "problem.json": {key: about[key] for key in ("name", "task", "targets", "classes", "fingerprint") if key in about},
        "summary.json": _results(summary),
    }
    content = {name: _json(value) for name, value in texts.items()}
    for name in ("calibration.json", DOMAIN):
        if (run / name).is_file():
            content[name] = (run / name).read_bytes()
    if molecules:
        content[TRAINING] = (run / TRAINING).read_bytes()
    for member in summary["members"]:
        place, chosen = member["folder"], summary["report"]
        for name in ("scale.json", f"{chosen}/config.json", f"{chosen}/model.safetensors"):
            content[f"{place}/{name}"] = (run / place / name).read_bytes()
    content = {"README.md": model_card(run, recipe, about, summary, list(content)).encode(), **content}
    if unknown := [name for name in content if not NAMES.fullmatch(name)]:
        raise ValueError(f"{run} has a model in {unknown[0]}, expected folders such as seed-0 or seed-0/fold-1.")
    with replaced(output) as beside, zipfile.ZipFile(beside, "w") as archive:
        for name, value in content.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, value)
    return list(content)


def unpack(file: Path) -> Path:
    """Unpack a zip of ``export`` into a new temporary folder, which has the form of a run. The caller removes it.

    Only the names and sizes that ``export`` writes are accepted, so that no file is written elsewhere, and no more than ``LARGEST`` bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="reign-"))
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in _checked(archive.infolist()):
                target = folder / ("recipe.yaml" if entry.filename == "recipe.json" else entry.filename)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, target.open("xb") as out:
                    shutil.copyfileobj(source, out)
        return folder
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, _Refused):
            raise ValueError(f"{file} is not a model that reign export made: {error}; do not use it.") from None
        if isinstance(error, Exception):  # a damaged archive can raise any error
            raise ValueError(
                f"{file} cannot be read as a model ({first_line(error)}), expected the folder of a run or a zip made by reign export."
            ) from None
        raise


class _Refused(Exception):
    pass


def _checked(entries: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """The files of an archive. Each must be one that ``export`` writes."""
    if len(entries) > MOST_FILES:
        raise _Refused(f"it has {len(entries):,} files, expected at most {MOST_FILES:,}")
    for entry in entries:
        name, mode = entry.filename, entry.external_attr >> 16
        if not NAMES.fullmatch(name):
            raise _Refused(f"it has the unexpected file {name!r:.80}")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _Refused(f"{name} is a link or a special file")
        if entry.flag_bits & 1:
            raise _Refused(f"{name} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _Refused(f"{name} is compressed by method {entry.compress_type}")
        if entry.file_size > (LARGEST if name.endswith(".safetensors") else LARGEST_TEXT):
            raise _Refused(f"{name} has {entry.file_size / 1e9:,.1f} GB unpacked")
    if (size := sum(entry.file_size for entry in entries)) > LARGEST:
        raise _Refused(f"it has {size / 1e9:,.1f} GB unpacked, expected at most {LARGEST / 1e9:.1f} GB")
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        raise _Refused("several of its files have the same name")
    return entries


def _without_folders(recipe: Recipe) -> dict[str, Any]:
    """The settings, in which files are named without their folders."""
    values = recipe.model_dump(mode="json")
    for part, names in {"data": ("path", "descriptors_path"), "train": ("checkpoint",)}.items():
        for name in names:
            if values[part].get(name) is not None:
                values[part][name] = re.split(r"[\\/]", values[part][name].rstrip("\\/"))[-1]
    return values


def _results(summary: dict[str, Any]) -> dict[str, Any]:
    """The results of a run, with what identifies each model."""
    kept = ("metric", "report", "parameters", "train", "val", "test", "ensemble", "metrics", "seconds")
    members = [{key: each[key] for key in ("seed", "fold", "folder", "best", "last") if key in each} for each in summary["members"]]
    return {**{key: summary[key] for key in kept if key in summary}, "members": members}


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
