"""A page for each term: its formulas, where its values live, its drawing, and the models that use it."""

import reign
from reign.nn import ALIASES, Term, latex_formula
from reign.plots import draw_layer

SCOPES = {
    "pair": "one row for every pair (subgraph, node)", "subgraph": "one row for every subgraph", "node": "one row for every node",
    "graph": "one row for every graph",
}  # fmt: skip


def file_of(name: str) -> str:
    """The file of a term: ``needle@Ak`` is in ``needle-at-Ak``."""
    return name.replace("@", "-at-")


def term_pages() -> dict[str, str]:
    """The pages by file, and the pictures on them."""
    pages: dict[str, str] = {}
    users = _users()
    terms = reign.list_terms()
    for term in terms:
        picture = drawing(term)
        if picture is not None:
            pages[f"terms/{file_of(term.name)}.svg"] = picture
        pages[f"terms/{file_of(term.name)}.md"] = _page(term, picture is not None, users.get(term.name, []))
    rows = "\n".join(
        f"| [{term.name}]({file_of(term.name)}.md) | ${latex_formula(term.formula)}$ | {term.scope}s | {term.paper} |"
        for term in terms
    )
    toc = "\n".join(file_of(term.name) for term in terms)
    pages["terms/index.md"] = (
        "# All terms\n\nThe target is $x^{k}_{i}$, node i in subgraph k. A term has a value for every target, but the value lives where it "
        "differs: a readout has one row for every subgraph. [Layers and models](../../models.md) says how layers are made of terms.\n\n"
        f"| term | formula | lives on | in the paper's table |\n|---|---|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )
    return pages


def drawing(term: Term) -> str | None:
    """The drawing of a layer of this term alone; None where its formula is none that can be drawn."""
    try:
        return draw_layer(terms=[term.name]).svg
    except ValueError:
        return None


def _users() -> dict[str, list[str]]:
    """The models whose layers have each term, by name of the term."""
    found: dict[str, list[str]] = {}
    for name in reign.list_models():
        model = reign.build_model(name, 4, 8, 2, 1)
        for module in model.modules():
            if isinstance(module, reign.nn.SubgraphConv):
                for on in (False, True):
                    for slot in module.slots(on):
                        for part in slot.name.split("+"):
                            if name not in found.setdefault(part, []) and name != "subgraphgnn":
                                found[part].append(name)
    return found


def _page(term: Term, drawn: bool, users: list[str]) -> str:
    on = (
        ""
        if term.formula_on is None
        else f"\n\nFor the target $x^{{i}}_{{i}}$, a root, it is\n\n$$\n{latex_formula(term.formula_on)}\n$$"
    )
    aliases = [alias for alias, name in ALIASES.items() if name == term.name]
    facts = [
        f"Its values live on {term.scope}s: {SCOPES[term.scope]}.",
        f"In the paper's table it is {', '.join(f'`{word}`' for word in term.paper.split())}." if term.paper else "It is not in the paper's table.",
        "It needs a policy with one subgraph per node." if term.node_based else "It works with any policy.",
        *([f"Another name of it is `{aliases[0]}`."] if aliases else []),
        "Models with this term: " + ", ".join(f"[{name}](../models/{name}.md)" for name in users) + "." if users else "No model of the catalogue has it.",
    ]  # fmt: skip
    picture = f"\n\n![What a layer of this term reads]({file_of(term.name)}.svg)" if drawn else ""
    return (
        f"# {term.name}\n\n$$\n{latex_formula(term.formula)}\n$${on}\n\n" + "\n".join(f"- {fact}" for fact in facts) + picture + "\n\n"
        f"```python\n>>> import reign\n>>> term = reign.nn.term(\"{term.name}\")\n>>> term.formula, term.scope\n{(term.formula, term.scope)!r}\n\n```\n\n"
        f"A layer with it: `SubgraphGNN(16, 64, 4, 1, policy=\"nm\", terms=[\"own\", \"{term.name}\"])`.\n"
    )  # fmt: skip
