"""A page for each model: its equations, the drawing of its layer, what is known of it, and its arguments."""

import reign
from reign.nn import find_model
from reign.plots import draw_layer


def model_pages() -> dict[str, str]:
    """The pages by file, and the pictures on them."""
    pages: dict[str, str] = {}
    summaries = reign.nn.model_summaries()
    for summary in summaries:
        picture = drawing(summary.name)
        if picture is not None:
            pages[f"models/{summary.name}.svg"] = picture
        pages[f"models/{summary.name}.md"] = _page(summary.name, picture is not None)
    rows = "\n".join(f"| [{find_model(s.name).__name__}]({s.name}.md) | `{s.policy}` | {s.about} |" for s in summaries)
    toc = "\n".join(summary.name for summary in summaries)
    pages["models/index.md"] = (
        "# All models\n\nEach is made as `SUN(in_channels, hidden_channels, num_layers, out_channels, policy=...)`, or by name, as "
        '`reign.build_model("sun", ...)`, and called as PyG\'s models are. [Layers and models](../../models.md) compares them.\n\n'
        f"| model | policy, if not given | what it is |\n|---|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )
    return pages


def drawing(name: str) -> str | None:
    """The drawing of the layer of a model; None where its layers are none that can be drawn."""
    try:
        return draw_layer(name).svg
    except ValueError:
        return None


def _page(name: str, drawn: bool) -> str:
    kind = find_model(name)
    model = reign.build_model(name, 4, 8, 2, 1)
    picture = f"\n\n![What a layer reads]({name}.svg)\n\nThis picture is `reign show layer {name} -o layer.svg`." if drawn else ""
    policy = "any policy with one subgraph per node" if kind.needs_node_based else "any policy"
    return (
        f"# {kind.__name__}\n\nThe equations of its layers, with $\\mu$ for MLPs, $W$ for linear maps and $\\gamma$ for base encoders:\n\n"
        f"$$\n{model.describe(latex=True)}\n$${picture}\n\n"
        f"| | |\n|---|---|\n| by name | `reign.build_model(\"{name}\", ...)`, `model.name: {name}` in recipes |\n"
        f"| policy | {policy if kind.takes_policy else 'none: it looks at the graph itself'} |\n| bounded by | {kind.wl_bound} |\n"
        f"| one page about it | `reign card {name}` |\n\n"
        "```python\n>>> import reign\n"
        f">>> model = reign.nn.{kind.__name__}(4, 8, 2, 1)\n>>> print(model.describe())\n{model.describe()}\n\n```\n\n"
        f"```{{eval-rst}}\n.. autoclass:: reign.nn.{kind.__name__}\n   :no-index:\n```\n"
    )  # fmt: skip
