"""The model card of an exported run: data, splits, metrics, versions, and how to use it."""

from pathlib import Path
from typing import Any

import reign._version
from reign.disk import read_record
from reign.tables import Table, number
from reign.train.calibration import Calibration
from reign.train.settings.config import DataConfig, Recipe
from reign.train.summary import in_words

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


def model_card(run: Path, recipe: Recipe, about: dict[str, Any], summary: dict[str, Any], files: list[str]) -> str:
    """A page in Markdown about a run.

    Args:
        run: the folder of the run.
        recipe, about, summary: its settings, targets and results.
        files: names of the files that are shared with the page.
    """
    data, train = recipe.data, recipe.train
    made = _record(run / "environment.json")
    number, command = len(summary["members"]), predict_command(data, "model.zip", "molecules.csv", "predictions.csv")
    lines = [
        f"# {recipe.model.name} for {', '.join(about['targets'])}",
        "",
        f"A subgraph graph neural network, trained with reign {made.get('reign', '')}".rstrip() + ".",
        "",
        "## How to use it",
        "",
        "    pip install 'reign[train,chem]'",
        *([f"    {command}"] if command is not None else []),
        "",
        "```python",
        "import reign",
        "",
        f'reign.load("model.zip").{_call(data)}',
        "```",
        "",
        "## Data",
        "",
        f"- Trained on: {about.get('name', data.name)} ({about['task']})",
        f"- Targets: {', '.join(about['targets'])}",
    ]
    if about["classes"]:
        lines.append(f"- Classes: {', '.join(about['classes'])}")
    if data.has_descriptors:
        named = [
            *data.descriptors_columns,
            *data.molecule_featurizers,
            *(["a table of descriptors"] if data.descriptors_path else []),
        ]
        lines.append(f"- Descriptors besides the graph: {', '.join(named)}")
    lines += ["", "## Splits", "", f"- {_split(recipe)}"]
    sizes = {split: len(rows) for split, rows in _record(run / summary["members"][0]["folder"] / "splits.json").items()}
    if sizes:
        lines.append("- Graphs: " + ", ".join(f"{size:,} {split}" for split, size in sizes.items()))
    lines += ["", "## Metrics", "", *_metrics(summary), ""]
    lines += [
        "## Model",
        "",
        f"- {number} model{'s' if number > 1 else ''} of {summary['parameters']:,} weights each; the prediction is their mean"
        if number > 1
        else f"- One model of {summary['parameters']:,} weights",
        f"- {recipe.model.name}, {recipe.model.num_layers} layers of {recipe.model.hidden_channels} channels"
        + "".join(f", {key} {value}" for key, value in recipe.model.options.items()),
        f"- {train.epochs} epochs; {in_words(summary)}",
        f"- Calibrated on validation rows: {_calibrated(run)}",
        "",
        "## Versions",
        "",
        *(f"- {name} {made[name]}" for name in VERSIONS if isinstance(made.get(name), str)),
        f"- exported by reign {reign._version.__version__}",
        "",
        "## What is in the file",
        "",
        "Settings, results, calibration, ranges of the training molecules and labels, and weights. It does not hold single labels, splits, predictions or checkpoints. "
        + (
            "It holds the SMILES of the training molecules (`training.csv`), for `--nearest`."
            if "training.csv" in files
            else "It does not hold the training molecules, so `--nearest` is not possible."
        ),
        "",
        *(f"- `{name}`" for name in files),
        "",
    ]
    return "\n".join(lines)


def _split(recipe: Recipe) -> str:
    data = recipe.data
    if recipe.folds is not None:
        return f"Cross-validation with {recipe.folds} folds"
    if data.name != "csv":
        return "The splits of the data set"
    if data.splits_column:
        return f"By the column {data.splits_column}"
    return f"{data.split}, with the shares {', '.join(map(str, data.split_sizes))} and the seed {data.split_seed}"


def _metrics(summary: dict[str, Any]) -> list[str]:
    """A table of metrics: a row for each metric, a column for each split."""
    found = summary.get("metrics") or {
        split: {summary["metric"]: summary[split]} for split in ("train", "val", "test") if split in summary
    }
    splits = list(found)
    if not splits:
        return ["No metrics were recorded."]
    values = {name: [found[split].get(name, {}) for split in splits] for name in found[splits[0]]}
    rows = ([name, *(number(each.get("mean"), each.get("std") or None) for each in row)] for name, row in values.items())
    return [Table("", ["metric", *splits], rows).markdown()]


def _calibrated(run: Path) -> str:
    found = Calibration.load(run / "calibration.json")
    intervals = [f"intervals by {method}" for method, of in found.intervals.items() if of]
    return ", ".join([*intervals, *(["probabilities"] if found.temperature or found.isotonic else [])]) or "no"


def _record(file: Path) -> dict[str, Any]:
    return read_record(file) if file.is_file() else {}
