"""A model in one file: a zip with all that predictions need, which is safe to open.

README.md            a model card
recipe.json          the settings; tables are named without their folders
problem.json         the task, targets and classes
summary.json         the results, and which models there are
calibration.json     the calibration, if there is one
domain.json          ranges of the training molecules, if there are some, for warnings
training.csv         the training molecules, only if they were asked for
forest.safetensors   the forest, if the run predicts with one; or one in the folder of each model; gp.safetensors the Gaussian process
seed-0/scale.json    the scale of the targets
seed-0/last/         weights and arguments of a model (or best/; seed-0/fold-1/ in cross-validation)
"""

import json
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reign._version
from reign.disk import first_line, replaced
from reign.tables import Table, number
from reign.train.runs.results import MetricOfTargets, Spread, Summary
from reign.train.runs.run import Run, RunFiles
from reign.train.settings.config import PARTNERS, DataConfig, Partner, Recipe
from reign.train.settings.yaml import RawSettings

# -- The model card of an exported run: data, splits, metrics, versions, and how to use it -----------------------------


VERSIONS = ("reign", "python", "torch", "torch_geometric")


def predict_command(data: DataConfig, model: str | Path, table: str = "FILE.csv", output: str = "out.csv") -> str | None:
    """The command that predicts the molecules of a table with a model; None if the model is not for molecules."""
    if not data.reads_smiles:
        return None
    more = " --descriptors-path DESCRIPTORS.csv" if data.descriptors_path is not None else ""
    return f"reign predict -i {table}{more} --model-paths {model} -o {output}"


def _call(data: DataConfig) -> str:
    """The call that predicts with a model in Python."""
    if not data.reads_smiles:
        return "predict(graphs)"
    if data.descriptors_path is not None:
        return 'predict_file("molecules.csv", descriptors_path="DESCRIPTORS.csv")'
    return 'predict_file("molecules.csv")' if data.descriptors_columns else 'predict(["CCO", "c1ccccc1"])'


def model_card(run: Run, files: list[str]) -> str:
    """A page in Markdown about a run.

    Args:
        run: the run.
        files: names of the files that are shared with the page.
    """
    recipe, problem, summary = run.recipe, run.problem, run.summary
    data, train, beside = recipe.data, recipe.train, " and ".join(PARTNERS[name] for name in recipe.ensemble_with)
    made, number = run.environment.to_dict(), len(summary.members)
    command = predict_command(data, "model.zip", "molecules.csv", run.files.predictions.name)
    named = [*data.descriptors_columns, *data.molecule_featurizers, *(["a table of descriptors"] if data.descriptors_path else [])]
    sizes = {split: len(rows) for split, rows in run.members[0].splits.items()}
    sections = {
        "How to use it": [
            "    pip install 'reign[train,chem]'",
            *([f"    {command}"] if command is not None else []),
            "",
            "```python",
            "import reign",
            "",
            f'reign.load("model.zip").{_call(data)}',
            "```",
        ],
        "Data": [
            f"- Trained on: {problem.name or data.name} ({problem.task})",
            f"- Targets: {', '.join(problem.targets)}",
            *([f"- Classes: {', '.join(problem.classes)}"] if problem.classes else []),
            *([f"- Descriptors besides the graph: {', '.join(named)}"] if data.has_descriptors else []),
        ],
        "Splits": [
            f"- {_split(recipe)}",
            *(["- Graphs: " + ", ".join(f"{size:,} {split}" for split, size in sizes.items())] if sizes else []),
        ],
        "Metrics": _metrics(summary),
        "Model": [
            f"- {number} models of {summary.parameters:,} weights each; the prediction is their mean"
            if number > 1
            else f"- One model of {summary.parameters:,} weights",
            f"- {recipe.model.name}, {recipe.model.num_layers} layers of {recipe.model.hidden_channels} channels"
            + "".join(f", {key} {value}" for key, value in recipe.model.options.items()),
            f"- {train.epochs} epochs; {summary.describe_weights()}",
            *(
                f"- {what} what its weights started from: {about}"
                for what, key in (("Data of", "data"), ("Licence of", "licence"))
                if (about := run.environment.start.get(key))
            ),
            *(
                [
                    f"- The prediction is the mean of this and of {beside}, on counts of environments and atom pairs and RDKit descriptors"
                ]
                if beside
                else []
            ),
            f"- Calibrated on validation rows: {_calibrated(run)}",
        ],
        "Versions": [
            *(f"- {name} {made[name]}" for name in VERSIONS if isinstance(made.get(name), str)),
            f"- exported by reign {reign._version.__version__}",
        ],
        "What is in the file": [
            "Settings, results, calibration, ranges of the training molecules and labels, and weights. It does not hold splits, predictions or checkpoints"
            + (". " + "".join(HOLDS[name] for name in recipe.ensemble_with) if beside else ", nor single labels. ")
            + (
                "It holds the SMILES of the training molecules (`training.csv`), for `--nearest`."
                if run.files.training.name in files
                else "It does not hold the training molecules, so `--nearest` is not possible."
            ),
            "",
            *(f"- `{name}`" for name in files),
        ],
    }
    title = f"# {recipe.model.name} for {', '.join(problem.targets)}"
    about = f"A subgraph graph neural network, trained with reign {made.get('reign', '')}".rstrip() + "."
    parts = [f"## {section}\n\n" + "\n".join(lines) for section, lines in sections.items()]
    return "\n\n".join([title, about, *parts]) + "\n"


def _split(recipe: Recipe) -> str:
    data = recipe.data
    if recipe.folds is not None:
        return f"Cross-validation with {recipe.folds} folds"
    if data.name != "csv":
        return "The splits of the data set"
    if column := data.splits_column or data.time_column:
        return f"By the column {column}" + (", the newest rows for the test" if data.time_column else "")
    if data.splits_file:
        return f"By the file {Path(data.splits_file).name}"
    if data.group_column:
        return f"By groups of the column {data.group_column}, with the shares {', '.join(map(str, data.split_sizes))} and the seed {data.split_seed}"
    return f"{data.split}, with the shares {', '.join(map(str, data.split_sizes))} and the seed {data.split_seed}"


def _metrics(summary: Summary) -> list[str]:
    """A table of metrics: a row for each metric, a column for each split."""
    found: Mapping[str, Mapping[str, MetricOfTargets | Spread]] = summary.metrics or {
        split: {summary.metric: value} for split, value in summary.splits.items()
    }
    splits = list(found)
    if not splits:
        return ["No metrics were recorded."]
    values = {name: [found[split].get(name) for split in splits] for name in found[splits[0]]}
    rows = ([name, *("" if each is None else number(each.mean, each.std or None) for each in row)] for name, row in values.items())
    return [Table("", ["metric", *splits], rows).markdown()]


def _calibrated(run: Run) -> str:
    found = run.calibration
    intervals = [f"intervals by {method}" for method, of in found.intervals.items() if of]
    return ", ".join([*intervals, *(["probabilities"] if found.temperature or found.isotonic else [])]) or "no"


# -- A model in one file: a zip with all that predictions need, which is safe to open ----------------------------------


NAMES = re.compile(
    r"README\.md|(recipe|problem|summary|calibration|domain)\.json|training\.csv|(forest|gp)\.safetensors"
    r"|seed--?\d{1,10}/(fold-\d{1,6}/)?(scale\.json|(forest|gp)\.safetensors|(best|last)/(config\.json|model\.safetensors))"
)
HOLDS: dict[Partner, str] = {
    "forest": "The leaves of the forest hold labels of training molecules. ",
    "gp": "The Gaussian process holds fingerprints and descriptors of training molecules, from which these and their labels can be found out. ",
}
SETTINGS = "recipe.json"  # the recipe, which is JSON in a zip
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
    opened, output = Run.open(run), Path(output)
    files = opened.files
    if molecules and not files.training.is_file():
        raise ValueError(
            f"{run} does not have the molecules that it was trained on ({files.training.name}); leave --with-molecules out."
        )
    about = opened.problem.to_dict()
    content = {
        SETTINGS: _json(_without_folders(opened.recipe)),
        files.problem.name: _json(
            {key: about[key] for key in ("name", "task", "targets", "classes", "fingerprint") if key in about}
        ),
        files.summary.name: _json(_results(opened.summary)),
    }
    for file in (files.calibration, files.domain, *([files.training] if molecules else [])):
        if file.is_file():
            content[file.name] = file.read_bytes()
    for member, result in zip(opened.members, opened.summary.members, strict=True):
        weights = member.files.weights(opened.summary.report)
        for file in (member.files.scale, weights / "config.json", weights / "model.safetensors"):
            content[f"{result.folder}/{file.relative_to(member.folder).as_posix()}"] = file.read_bytes()
        for partner in (opened.partner_of(member.folder, kind) for kind in opened.recipe.ensemble_with):
            own = partner.parent == member.folder
            content[f"{result.folder}/{partner.name}" if own else partner.name] = partner.read_bytes()
    content = {"README.md": model_card(opened, list(content)).encode(), **content}
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
                target = RunFiles(folder).recipe if entry.filename == SETTINGS else folder / entry.filename
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


def _without_folders(recipe: Recipe) -> RawSettings:
    """The settings, in which files are named without their folders."""
    values = recipe.model_dump(mode="json")
    for part, names in {"data": ("path", "descriptors_path", "splits_file"), "train": ("checkpoint",)}.items():
        for name in names:
            if values[part].get(name) is not None:
                values[part][name] = re.split(r"[\\/]", values[part][name].rstrip("\\/"))[-1]
    return values


def _results(run: Summary) -> dict[str, object]:
    """The results of a run, with what identifies each model."""
    summary = run.to_dict()
    kept = (
        "metric",
        "report",
        "parameters",
        "train",
        "val",
        "test",
        "ensemble",
        "baselines",
        "partners",
        "together",
        "metrics",
        "seconds",
    )
    members = [{key: each[key] for key in ("seed", "fold", "folder", "best", "last") if key in each} for each in summary["members"]]
    return {**{key: summary[key] for key in kept if key in summary}, "members": members}


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
