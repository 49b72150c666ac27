"""A page for each policy: its formula, the bag of a small graph, and its arguments."""

import re

import reign
from reign.plots import read_graph
from reign.policies import POLICIES, Sampled

GRAPH = "0-1,1-2,2-3,3-0,3-4,4-5"  # a square with a tail
SHOWN = 6  # subgraphs
FORMULAS = {  # member[k, i]; d is the hop distance
    "null": r"\mathrm{member}[k,i] = 1",
    "nd": r"\mathrm{member}[k,i] = \mathbf{1}_{[i \neq k]}",
    "nm": r"\mathrm{member}[k,i] = 1, \quad \mathrm{mark}[k,i] = \mathbf{1}_{[i = k]}",
    "ego": r"\mathrm{member}[k,i] = \mathbf{1}_{[d(k,i) \leq h]}",
    "ed": r"A_{k} = A - \{ (u,v), (v,u) \}, \quad k = (u,v)",
    "2-": r"\mathrm{member}[(u,v),i] = 1 \;(\mathrm{nm}), \quad \mathbf{1}_{[i \neq u, i \neq v]} \;(\mathrm{nd}), \quad"
    r" \mathbf{1}_{[\min(d(u,i), d(v,i)) \leq h]} \;(\mathrm{ego})",
    "central": r"\mathrm{member}[k,i] = 1, \quad k \in \mathrm{argmax}^T_k \exp(A)_{kk}",
    "whole": r"\mathrm{member}[1,i] = 1",
    "sampled": r"k \in R, \quad R \subseteq V \;\mathrm{drawn\ at\ random}",
}
TITLES = {
    "null": "Null", "nd": "Node deletion (ND)", "nm": "Node marking (NM)", "ego": "Ego nets (EGO, EGO+)", "ed": "Edge deletion (ED)",
    "2-": "Policies on tuples and sets of nodes (2-ND, 2-NM, 2-EGO)", "central": "The most central nodes", "whole": "The whole graph", "sampled": "Sampled bags",
}  # fmt: skip
FILES = {"2-": "tuples"}


def policy_pages() -> dict[str, str]:
    """The pages by file, and the pictures on them."""
    pages: dict[str, str] = {}
    entries = [*POLICIES.items(), ("sampled", Sampled)]
    for name, kind in entries:
        file = FILES.get(name, name)
        names = {kind.example or name: kind.meaning, **kind.variants} if name != "sampled" else {
            "nm@0.5": "half of the subgraphs of node marking", "ego+:3@8": "eight of the ego nets"}  # fmt: skip
        if name == "2-":
            names = {key: value for key, value in reign.policies.policy_meanings().items() if key.startswith("2-")}
        shown = re.sub(r":\d+", ":1", next(iter(names)))
        bag = reign.policy(shown).from_data(read_graph(GRAPH).data)
        pages[f"policies/{file}.svg"] = bag.draw(list(range(min(len(bag), SHOWN)))).svg
        pages[f"policies/{file}.md"] = _page(name, kind, names, shown, file)
    links = "\n".join(f"| [{TITLES.get(n, n)}]({FILES.get(n, n)}.md) | {_words(kind)} |" for n, kind in entries)
    toc = "\n".join(FILES.get(n, n) for n, _ in entries)
    pages["policies/index.md"] = (
        "# All policies\n\nA selection policy turns a graph into a bag of subgraphs. [Policies and bags](../../policies.md) says how bags "
        f"lie in memory, and how to write a policy of your own.\n\n| policy | what it does |\n|---|---|\n{links}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )
    return pages


def _words(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def _page(name: str, kind: type, names: dict[str, str], shown: str, file: str) -> str:
    rows = "\n".join(f'| `"{key}"` | {value} |' for key, value in names.items())
    member = reign.policy(shown)(*_path(), batch=None).to_dense().member.int().tolist() if _dense(shown) else None
    dense = "" if member is None else (
        "\n\nThe members of the subgraphs of a path of four nodes, a row for each subgraph:\n\n"
        "```python\n>>> import torch, reign\n>>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])\n"
        f'>>> bag = reign.policy("{shown}")(torch.ones(4, 1), path)\n'
        f">>> bag.to_dense().member.int().tolist()\n{member}\n\n```\n"
    )  # fmt: skip
    return (
        f"# {TITLES.get(name, name)}\n\n$$\n{FORMULAS[name]}\n$$\n\n"
        f"| name | each subgraph is |\n|---|---|\n{rows}\n\n"
        f"![The bag of a small graph]({file}.svg)\n\nThis picture is `reign show bag {GRAPH} --policy {shown} -o bag.svg`"
        f"{', the first subgraphs of it' if name in ('2-', 'ed') else ''}.{dense}\n\n"
        f"```{{eval-rst}}\n.. autoclass:: reign.policies.{kind.__name__}\n   :no-index:\n```\n"
    )


def _path() -> tuple[object, object]:
    import torch

    return torch.ones(4, 1), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def _dense(name: str) -> bool:
    """Whether members are a matrix of nodes by nodes that says what the policy does."""
    made = reign.policy(name)
    return made.node_based and not made.random
