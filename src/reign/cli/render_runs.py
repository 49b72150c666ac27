"""Tables for the terminal: results of runs and studies, statistics of data sets."""

from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from reign.data import SplitStatistics, TargetStatistics
    from reign.train.config import DataConfig


def summary_table(summary: dict[str, Any]) -> Table:
    """The results of a run."""
    from reign.train.summary import in_words

    name, members = summary["metric"], summary["members"]
    over = "models" if "folds" not in summary else "seeds" if "seeds" in summary["val"] else "folds"  # what the deviation is over
    table = _with_title(
        f"{name}, {in_words(summary)}", f"{summary['parameters']:,} weights, {summary['seconds']:.0f} s of training"
    )
    table.add_column("split")
    table.add_column("mean" if len(members) > 1 else name, justify="right")
    if len(members) > 1:
        table.add_column("std", justify="right")
        table.add_column(over, justify="right")
    for split in ("train", "val", "test"):
        if split in summary:
            found = summary[split]
            more = [number(found["std"]), str(len(found["values"]))] if len(members) > 1 else []
            table.add_row(split, number(found["mean"]), *more)
    if len(members) > 1 and "ensemble" in summary:
        table.add_row("test, ensemble", number(summary["ensemble"]["test"]), "", str(summary["ensemble"]["size"]))
    return table


def show_predict_command(console: Console, data: "DataConfig", model: Path) -> None:
    """Print the command that predicts with a model of molecules."""
    from reign.train.model_card import predict_command

    if (command := predict_command(data, model)) is not None:
        console.print(f"Predict with: {command}", soft_wrap=True)


def metrics_table(summary: dict[str, Any]) -> Table | None:
    """All metrics of a run on all splits, for each target; None if that is no more than the summary has."""
    from reign.train.summary import in_words

    found: dict[str, dict[str, Any]] = summary.get("metrics") or {}
    first: dict[str, Any] = next(iter(found.values()), {})
    targets = list(next(iter(first.values()))["targets"]) if first and "targets" in next(iter(first.values())) else []
    if len(first) < 2 and not targets:
        return None
    several = len(summary["members"]) > 1
    own = bool(summary.get("folds")) and summary["report"] == "best"  # these are measured with the weights that are kept
    table = _with_title(("the best epoch of each fold" if own else in_words(summary)) + (", mean over models" if several else ""))
    for column in ("split", "metric", "all targets" if targets else "value", *targets):
        table.add_column(column, justify="left" if column in ("split", "metric") else "right")
    for split in ("train", "val", "test"):
        for name, about in found.get(split, {}).items():
            table.add_row(split, name, number(about["mean"]), *(number(about["targets"][t]) for t in targets))
    return table


def replicates_table(summaries: list[dict[str, Any]]) -> Table:
    """The results of the same training on several splits, and their mean and deviation."""
    splits = [split for split in ("train", "val", "test") if all(split in summary for summary in summaries)]
    table = _with_title(f"{summaries[0]['metric']} on {len(summaries)} splits")
    for column in ("replicate", *splits):
        table.add_column(column, justify="left" if column == "replicate" else "right")
    values = [[float(summary[split]["mean"]) for split in splits] for summary in summaries]
    for r, row in enumerate(values):
        table.add_row(str(r), *map(number, row))
    columns = list(zip(*values, strict=True))
    table.add_row("mean", *(number(mean(column)) for column in columns))
    if len(values) > 1:
        table.add_row("std", *(number(stdev(column)) for column in columns))
    return table


def study_table(study: Any) -> Table:
    """The points of a grid, best first."""
    from reign.experiments.tune import best_first

    done = best_first(study)
    table = _with_title(f"{study.study_name}: {len(done)} points")
    names = list(done[0].params) if done else []
    for column in ("trial", *names, "validation"):
        table.add_column(column, justify="right" if column == "validation" else "left")
    for trial in done:
        table.add_row(str(trial.number), *(str(trial.params[name]) for name in names), number(trial.value))
    return table


def split_table(title: str, found: "list[SplitStatistics]") -> Table:
    """The sizes of the graphs of each split."""
    table = Table(title=title)
    for column in ("split", "graphs", "nodes per graph", "largest", "edges per graph"):
        table.add_column(column, justify="left" if column == "split" else "right")
    for s in found:
        table.add_row(s.split, f"{s.graphs:,}", f"{s.nodes:.2f}", f"{s.largest}", f"{s.edges:.2f}")
    return table


def target_table(task: str, found: "list[TargetStatistics]") -> Table:
    """The values of each target in each split."""
    table = Table(title=f"Targets ({task})")
    for column in ("target", "split", "mean", "std", "smallest", "largest"):
        table.add_column(column, justify="left" if column in ("target", "split") else "right")
    for t in found:
        table.add_row(t.target, t.split, *(number(value) for value in (t.mean, t.std, t.smallest, t.largest)))
    return table


def _with_title(title: str, caption: str | None = None) -> Table:
    """A table that is wide enough for its title and caption to have one line each, however few columns it gets."""
    return Table(title=title, caption=caption, min_width=max(len(title), len(caption or "")))


def number(value: float | None) -> str:
    """A number with four digits, or an empty text for None."""
    return "" if value is None else f"{value:.4g}"
