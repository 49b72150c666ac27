"""``reign separate``, ``card`` and ``questions``: commands about expressive power."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reign.cli.options import Quiet, data_option, model_option, output_option, progress_unless
from reign.cli.tools import check_writable, fail, plain_console
from reign.tables import Table

if TYPE_CHECKING:
    from reign.nn import SubgraphGNN
    from reign.theory import Verdict

margin_option = partial(typer.Option, rich_help_panel="Margins")
TERMS = "A model from a list of terms, such as own,local,transpose; reign.list_terms() lists them"
ROOT_TERMS = "Terms of roots, which then have their own weights"
PolicyName = Annotated[str, model_option(help="The policy of the model from --terms.")]


def separate(
    family: Annotated[
        str | None, typer.Argument(help="A family of graph pairs (see --list), or a file of graphs: graph6 lines, or .npy.")
    ] = None,
    model: Annotated[
        list[str] | None,
        model_option(
            help="A model, with its policy and layers: mpnn, sun:nm (policy nm), sun:ego+:2/4 (policy ego+:2, 4 layers); repeat for more."
        ),
    ] = None,
    wl: Annotated[
        list[str] | None,
        model_option(
            help="Order of a WL test, such as 3; or a model for its colour refinement, such as sun:nm (until stable) or sun:nm/6; repeat for more."
        ),
    ] = None,
    terms: Annotated[list[str] | None, model_option(help=f"{TERMS}; repeat for more.")] = None,
    root_terms: Annotated[
        list[str] | None, model_option(help=f"{ROOT_TERMS}; the n-th is for the n-th --terms, and none is for a model without.")
    ] = None,
    policy: PolicyName = "nm",
    csv: Annotated[Path | None, output_option(help="Write the results for every pair to this CSV file.")] = None,
    layers: Annotated[
        int | None, model_option(help="Number of layers of models whose name does not give it; 6 if not given.")
    ] = None,
    act: Annotated[
        str, margin_option(help="Activation of the networks for float64 margins: silu or sine; none for no margins.")
    ] = "silu",
    approximate: Annotated[
        bool,
        margin_option("--approximate", help="Decide by float64 margins in place of exact arithmetic; this can miss differences."),
    ] = False,
    seeds: Annotated[int, margin_option(help="Number of random networks to try in float64.")] = 3,
    per_pair: Annotated[bool, output_option("--per-pair", help="Also print a line for each pair.")] = False,
    all_pairs: Annotated[
        bool, data_option("--all-pairs", help="Compare all pairs of graphs in a file, not only consecutive ones.")
    ] = False,
    show: Annotated[bool, data_option("--list", help="List the families.")] = False,
    quiet: Quiet = False,
) -> None:
    """Test which pairs of graphs each model or WL test tells apart.

    Models are run over a finite field with random weights, so that results are exact.

    The table also shows the margin of a float64 network: above 1, two graphs differ by more than 100 times the noise of permuted copies.
    """
    from reign.disk import write_csv
    from reign.theory import family as find
    from reign.theory import separate as run

    console = plain_console()
    if show:
        from reign.theory import FAMILIES

        families = [(name, about.meaning) for name, about in FAMILIES.items()]
        console.print(Table("Families of graph pairs", ["name", "description"], families, align="l", names=True).rich())
        return
    if family is None:
        fail("give a family or a file of pairs, as in: reign separate csl --model sun:nm --wl 3; --list shows the families.")
    if not model and not wl and not terms:
        fail("nothing to try: give --model, as in --model sun:nm, --terms, as in --terms own,local, or --wl, as in --wl 3.")
    if seeds < 1:
        fail(f"--seeds is {seeds}, expected at least 1.")
    if act not in ("silu", "sine", "none"):
        fail(f"--act is '{act}', expected silu, sine or none.")
    with progress_unless(quiet) as callback:
        check_writable(csv)
        (pairs,) = (find(name, all_pairs) for name in callback.track([family], f"reading {family}"))
        own = {
            _title(names, roots): from_terms(names, roots, policy, 6 if layers is None else layers, pairs[0].one.num_features)
            for names, roots in _with_roots(terms or [], root_terms or [])
        }
        tests = [int(test) if test.isdecimal() else test for test in wl or []]
        verdicts = run(
            pairs,
            [*(model or []), *own.values()],
            [*tests, *own.values()],
            layers=layers,
            exact=not approximate,
            act=None if act == "none" else act,  # type: ignore[arg-type]
            seeds=range(seeds),
            progress=callback.track,
        )
        titles = {repr(each) + kind: title + kind for title, each in own.items() for kind in ("", " colours")}
        verdicts = [v._replace(method=titles.get(v.method, v.method)) for v in verdicts]  # without all settings of a model
        if csv is not None:
            rows = [
                [
                    v.pair,
                    v.method,
                    int(v.separated),
                    "" if v.layer is None else v.layer,
                    "" if v.margin is None else f"{v.margin:.6g}",
                ]
                for v in verdicts
            ]
            write_csv(csv, ["pair", "method", "separated", "layer", "margin"], rows)
    if per_pair:
        for verdict in verdicts:
            console.print(f"{verdict.pair}, {verdict.method}: {verdict}", soft_wrap=True)
    console.print(_separation(family, verdicts, exact=not approximate).rich())


def _separation(family: str, verdicts: "list[Verdict]", exact: bool) -> Table:
    """The number of pairs that each method separates, the layers or rounds it needs, and the margins."""
    caption = "Layers (or rounds) are the smallest number that tells a pair apart."
    if any(v.margin is not None for v in verdicts):
        caption += (
            " The number of separated pairs is exact. Margins are measured in float64, in units of a threshold: above 1, rounding does not "
            "hide the difference."
            if exact
            else " A model separates a pair if the margin, measured in float64 in units of a threshold, is above 1."
        )
    if any(v.method.endswith(" colours") for v in verdicts):
        caption += " Colours are the colour refinement of a model, which bounds what it can separate."
    rows = []
    for method in dict.fromkeys(v.method for v in verdicts):
        mine = [v for v in verdicts if v.method == method]
        layers = [v.layer for v in mine if v.layer is not None]
        margins = sorted(v.margin for v in mine if v.margin is not None)
        ends = [f"{margins[0]:.2g}", f"{margins[-1]:.2g}"] if margins else ["", ""]
        span = "" if not layers else str(layers[0]) if min(layers) == max(layers) else f"{min(layers)} to {max(layers)}"
        rows.append([method, sum(v.separated for v in mine), len(mine), span, *ends])
    columns = ["method", "separated", "of", "layers", "smallest margin", "largest margin"]
    return Table(f"Pairs of {family} told apart", columns, rows, caption)


def card(
    model: Annotated[
        str | None,
        typer.Argument(help="A model, with its policy and layers: sun:nm (policy nm), dss:ego+:2/4 (policy ego+:2, 4 layers)."),
    ] = None,
    terms: Annotated[str | None, model_option(help=f"{TERMS}.")] = None,
    root_terms: Annotated[str | None, model_option(help=f"{ROOT_TERMS}.")] = None,
    policy: PolicyName = "nm",
    layers: Annotated[int, model_option(help="Number of layers of the model from --terms.")] = 6,
    family: Annotated[
        list[str] | None,
        data_option(help="A family of graph pairs to try; repeat for more. All families that need no data file if not given."),
    ] = None,
    output: Annotated[Path | None, output_option("-o", "--output", help="Write the page to this file: .md, .html or text.")] = None,
    quiet: Quiet = False,
) -> None:
    """Show a page about a model.

    The page has its equations, symmetry and cost, its WL bound, and the pairs of graphs it tells apart.
    """
    from reign.disk import write_text
    from reign.theory import card as make

    if (model is None) == (terms is None):
        fail("give either a model, such as sun:nm, or --terms, such as own,local.")
    if root_terms is not None and terms is None:
        fail("--root-terms belongs to --terms; give both, or leave it out.")
    with progress_unless(quiet) as callback:
        check_writable(output)
        page = make(from_terms(terms, root_terms, policy, layers) if terms is not None else str(model), family, callback.track)
        if output is not None:
            text = page.html() if output.suffix == ".html" else page.markdown() if output.suffix == ".md" else str(page) + "\n"
            write_text(output, text)
    plain_console().print(str(page), soft_wrap=True)


def questions(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the tables as Markdown to this file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use only small families and two policies.")] = False,
    quiet: Quiet = False,
) -> None:
    """Show tables on questions that the paper leaves open.

    They compare models and policies by expressive power, ReIGN(2) with 3-WL, and policies with two nodes per subgraph.
    """
    from reign.disk import write_text
    from reign.theory import answer

    console = plain_console()
    with progress_unless(quiet) as callback:
        check_writable(output)
        text = answer(quick=quick, progress=callback.track)
        if output is not None:
            write_text(output, text)
    console.print(text, soft_wrap=True)


def from_terms(terms: str, root_terms: str | None, policy: str, layers: int, in_channels: int = 1) -> "SubgraphGNN":
    """A model from lists of terms, separated by commas."""
    from reign.nn import SubgraphGNN

    roots = None if root_terms is None else _names(root_terms)
    return SubgraphGNN(in_channels, 16, layers, 4, terms=_names(terms), root_terms=roots, policy=policy, norm=None)


def _with_roots(terms: list[str], root_terms: list[str]) -> list[tuple[str, str | None]]:
    """Each list of terms with that of its roots, if it has one."""
    if root_terms and len(root_terms) != len(terms):
        what = f"--terms is given {len(terms)} times and --root-terms {len(root_terms)} times"
        fail(f"{what}; give one --root-terms for each --terms, with none for a model whose roots have no terms of their own.")
    found = [
        (names, None if roots == "none" else roots) for names, roots in zip(terms, root_terms or ["none"] * len(terms), strict=True)
    ]
    titles = [_title(names, roots) for names, roots in found]
    if twice := [title for title in titles if titles.count(title) > 1]:
        fail(f"the model of the terms {twice[0]} is given {titles.count(twice[0])} times; give it once.")
    return found


def _title(terms: str, root_terms: str | None) -> str:
    return ", ".join(_names(terms)) + (f" (roots: {', '.join(_names(root_terms))})" if root_terms is not None else "")


def _names(terms: str) -> list[str]:
    return [name.strip() for name in terms.split(",")]
