"""Tables for the terminal."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from rich.table import Table
from torch_geometric.data import Data

import reign

if TYPE_CHECKING:
    from reign.experiments.reproduce import Cell
    from reign.experiments.tables import Table as Paper
    from reign.theory import Verdict


def molecule() -> Data:
    """Naphthalene with a tail, as a graph: two fused 6-rings (nodes 0 to 9), and a chain of 10, 11 from node 4."""
    bonds = [(i, (i + 1) % 10) for i in range(10)] + [(0, 5), (4, 10), (10, 11)]
    edge_index = torch.tensor(bonds).t()
    return Data(x=torch.ones(12, 1), edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1))


def policy_table() -> Table:
    """The policies by name."""
    table = Table(title="Selection policies", caption="Depths can be any number; add @0.5 or @8 to sample subgraphs.")
    table.add_column("name", style="bold")
    table.add_column("each subgraph is")
    for name, meaning in reign.policies.policy_meanings().items():
        table.add_row(name, meaning)
    return table


def model_table() -> Table:
    """The models by name."""
    table = Table(title="Models")
    table.add_column("name", style="bold")
    table.add_column("policy")
    table.add_column("what it is")
    for name in reign.list_models():
        model = reign.build_model(name, 8, 8, 2, 1)
        doc = " ".join((type(model).__doc__ or "").split("\n\n")[0].split())
        table.add_row(name, str(model.policy), doc)
    return table


def family_table() -> Table:
    """The families of graph pairs."""
    from reign.theory import FAMILIES

    table = Table(title="Families of graph pairs")
    table.add_column("name", style="bold")
    table.add_column("what it is")
    for name, family in FAMILIES.items():
        table.add_row(name, family.meaning)
    return table


def separation_table(family: str, verdicts: "list[Verdict]") -> Table:
    """How many pairs each method separates, in how many layers or rounds, and by how much."""
    table = Table(
        title=f"Pairs of {family} told apart",
        caption="Layers (or rounds) are the fewest that tell a pair apart. Margins are those of float64, in units of the threshold: above 1 "
        "is separated.",
    )
    for column in ("method", "separated", "of", "layers", "smallest margin", "largest margin"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in dict.fromkeys(v.method for v in verdicts):
        mine = [v for v in verdicts if v.method == method]
        layers = [v.layer for v in mine if v.layer is not None]
        margins = sorted(v.margin for v in mine if v.margin is not None)
        ends = [f"{margins[0]:.2g}", f"{margins[-1]:.2g}"] if margins else ["", ""]
        span = "" if not layers else str(layers[0]) if min(layers) == max(layers) else f"{min(layers)} to {max(layers)}"
        table.add_row(method, str(sum(v.separated for v in mine)), str(len(mine)), span, *ends)
    return table


def bag_table(data: Data | None = None) -> Table:
    """The bag of one graph under every policy."""
    data = molecule() if data is None else data
    table = Table(title=f"Bags of a graph of {data.num_nodes} nodes and {data.num_edges // 2} edges")
    for column in ("policy", "subgraphs", "pairs", "members", "edges", "channels", "ms"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for name in reign.list_policies():
        start = time.perf_counter()
        bag = reign.policy(name).from_data(data)
        edges = bag.pair_edges.edge.numel() // 2
        ms = 1000 * (time.perf_counter() - start)
        sizes = (bag.num_subgraphs, bag.num_pairs, int(bag.member.sum()), edges, bag.x.size(1))
        table.add_row(name, *(f"{size:,}" for size in sizes), f"{ms:.1f}")
    return table


def summary_table(summary: dict[str, Any]) -> Table:
    """The results of a run."""
    name, members = summary["metric"], summary["members"]
    folds = summary.get("folds")
    how = f"{folds} folds, the epoch with the best mean" if folds else f"weights of the {summary['report']} epoch"
    table = Table(title=f"{name}, {how}", caption=f"{summary['parameters']:,} weights, {summary['seconds']:.0f} s of training")
    table.add_column("split")
    table.add_column("mean" if len(members) > 1 else name, justify="right")
    if len(members) > 1:
        table.add_column("std", justify="right")
        table.add_column("folds" if folds else "models", justify="right")
    for split in ("train", "val", "test"):
        if split in summary:
            found = summary[split]
            more = [_number(found["std"]), str(len(found["values"]))] if len(members) > 1 else []
            table.add_row(split, _number(found["mean"]), *more)
    if len(members) > 1 and "ensemble" in summary:
        table.add_row("test, ensemble", _number(summary["ensemble"]["test"]), "", str(summary["ensemble"]["size"]))
    return table


def recipe_table(name: str | None) -> Table:
    """The recipes, or one of them."""
    from reign.experiments.tables import list_tables, load_table_recipe

    if name is None:
        table = Table(title="Recipes", caption="reign train RECIPE/ROW/COLUMN, reign reproduce RECIPE")
        for column in ("recipe", "what it is", "rows", "columns"):
            table.add_column(column, style="bold" if column == "recipe" else "")
        for each in list_tables():
            recipe = load_table_recipe(each)
            if list(recipe.rows) == ["run"]:
                table.add_row(each, "what reign train -i FILE.csv does", "", "")
            else:
                table.add_row(each, recipe.title, ", ".join(recipe.rows), ", ".join(recipe.columns))
        return table
    recipe = load_table_recipe(name)
    table = Table(title=f"{recipe.title}: {recipe.unit}", caption=" ".join(recipe.notes))
    table.add_column("row", style="bold")
    table.add_column("model")
    for column in recipe.columns:
        table.add_column(f"{column} (paper)", justify="right")
    for row, about in recipe.rows.items():
        table.add_row(row, about.title, *(_paper(about.paper.get(column)) for column in recipe.columns))
    for title, numbers in recipe.quoted.items():
        table.add_row("", f"{title} (quoted)", *(_paper(numbers.get(column)) for column in recipe.columns))
    return table


def comparison_rows(paper: "Paper", cells: "list[Cell]") -> tuple[list[str], list[list[Any]]]:
    """Ours and the paper's as rows of a file."""
    header = ["row", "model", "column", "ours", "ours_std", "runs", "paper", "paper_std", "difference_in_std"]
    rows = [
        [c.row, paper.rows[c.row].title, c.column, c.ours, c.deviation, c.runs, c.paper, c.paper_deviation, c.difference]
        for c in cells
    ]
    return header, [["" if v is None else v for v in row] for row in rows]


def comparison_table(paper: "Paper", cells: "list[Cell]", quick: bool) -> Table:
    """Ours beside the paper's."""
    caption = "Difference in standard deviations: the paper's, or ours where it gives none. " + " ".join(paper.notes)
    if quick:
        caption = "A quick look on a small share of the data: not to be compared with the paper. " + caption
    table = Table(title=f"{paper.title}: {paper.unit}", caption=caption)
    for name in ("model", "column", "ours", "paper", "difference"):
        table.add_column(name, justify="left" if name in ("model", "column") else "right")
    last = ""
    for c in cells:
        ours = (
            f"{_number(c.ours)} +- {_number(c.deviation)} ({c.runs})"
            if c.deviation is not None
            else f"{_number(c.ours)} ({c.runs})"
        )
        theirs = "" if c.paper is None else _paper(c.paper if c.paper_deviation is None else (c.paper, c.paper_deviation))
        gap = "" if c.difference is None else f"{c.difference:+.1f}"
        title = paper.rows[c.row].title
        table.add_row("" if title == last else title, c.column, ours, theirs, gap, end_section=False)
        last = title
    wanted = dict.fromkeys(c.column for c in cells)
    for title, numbers in paper.quoted.items():
        for i, column in enumerate(name for name in wanted if numbers.get(name) is not None):
            table.add_row(f"{title} (quoted)" if i == 0 else "", column, "", _paper(numbers[column]), "")
    return table


def study_table(study: Any) -> Table:
    """The points of a grid, best first."""
    done = [t for t in study.trials if t.value is not None]
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    table = Table(title=f"{study.study_name}: {len(done)} points")
    names = list(done[0].params) if done else []
    for column in ("trial", *names, "validation"):
        table.add_column(column, justify="right" if column == "validation" else "left")
    for trial in sorted(done, key=lambda t: sign * t.value):
        table.add_row(str(trial.number), *(str(trial.params[name]) for name in names), _number(trial.value))
    return table


def dataset_table() -> Table:
    """The data sets by name."""
    from reign.data import DATASETS

    table = Table(title="Data sets", caption="reign data info NAME --set KEY=VALUE")
    for column in ("name", "what it is", "options"):
        table.add_column(column, style="bold" if column == "name" else "")
    for name, kind in DATASETS.items():
        table.add_row(name, kind.about, ", ".join(f"{key}={value}" for key, value in kind.defaults().items()))
    return table


def problem_table(name: str, options: dict[str, Any]) -> Iterator[Table]:
    """Statistics of the splits and of the targets of a data set."""
    from reign.data import find_dataset, load_problem

    problem = load_problem(name, **options)
    table = Table(title=find_dataset(name).about)
    for column in ("split", "graphs", "nodes a graph", "largest", "edges a graph"):
        table.add_column(column, justify="left" if column == "split" else "right")
    graphs = problem.graphs
    for split, ids in problem.splits.items():
        nodes, edges = graphs.sizes[ids].double(), graphs.edge_ptr.diff()[ids].double() / 2
        table.add_row(split, f"{ids.numel():,}", f"{nodes.mean():.2f}", f"{int(nodes.max())}", f"{edges.mean():.2f}")
    yield table
    table = Table(title=f"Targets ({problem.task})")
    for column in ("target", "split", "mean", "std", "smallest", "largest"):
        table.add_column(column, justify="left" if column in ("target", "split") else "right")
    for t, target in enumerate(problem.targets):
        for split, ids in problem.splits.items():
            y = problem.y[ids, t].double()
            table.add_row(target, split, *(_number(float(v)) for v in (y.mean(), y.std(), y.min(), y.max())))
    yield table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _paper(value: Any) -> str:
    if value is None:
        return ""
    return (
        f"{value[0]:g} +- {value[1]:g}"
        if isinstance(value, tuple | list) and value[1] is not None
        else f"{value[0] if isinstance(value, tuple | list) else value:g}"
    )
