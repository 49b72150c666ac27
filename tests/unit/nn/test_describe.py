"""What layers and models compute and cost, in words."""

from typing import Any

import reign
from reign.nn import SUN, SubgraphConv


def test_describe() -> None:
    model = SUN(64, 64, 6, 1, policy="ego:3", node_encoder=21, edge_encoder=4)
    text = model.describe()
    assert "525,913 parameters" in text  # as many as the authors' model has
    assert "GIN(x[k,i], sum_{j ~_k i} x[k,j])" in text
    assert "GIN(mean_h x[h,i], sum_{j ~ i} mean_h x[h,j])" in text
    assert "node_root, 8,448 parameters, on nodes" in text
    assert "cost: 5 passes over pairs, 2 passes over subgraphs, 3 passes over nodes, 5 passes over roots" in text
    for name in reign.list_models():
        model = reign.build_model(name, 3, 6, 2, 1)
        text = model.describe()
        assert "x[k,i] <- " in text
        assert f"{sum(p.numel() for p in model.parameters()):,} parameters" in text
        assert ("x[i,i] <- " in text) == (name in ("sun", "reign2", "ign2"))


def test_where_layers_run() -> None:
    def runs(channels: int = 8, **options: Any) -> str:
        terms = options.pop("terms", ["own+local", "needle"])
        return SubgraphConv(channels, channels, terms, **options).describe().splitlines()[-1].strip()

    assert runs() == "runs: fused on a GPU, in blocks on a CPU"
    assert runs(128) == runs()
    wide = "runs: in blocks on a CPU, but not fused on a GPU, because it has 129 channels, and kernels take up to 128"
    assert runs(129) == wide
    reasons: list[tuple[dict[str, Any], str]] = [
        ({"act": "elu"}, "the activation is ELU, and kernels compute ReLU"),
        ({"norm": "layer_norm"}, "a norm is LayerNorm, and kernels compute batch norm with a momentum"),
        ({"conv": "gcn"}, "the base encoder of own+local is GCN, and kernels compute GIN"),
        ({"terms": ["needle"]}, "no term has a value for each pair"),
        ({"root_terms": ["own"], "roots": "added"}, "the terms of roots are added to those of all pairs"),
        ({"root_terms": ["own"], "norm_at": "end"}, "the sum of all terms is normalised, and roots have terms of their own"),
    ]
    for options, reason in reasons:
        assert runs(**options) == f"runs: plain operations, because {reason}"


def test_means_of_sums() -> None:
    """A sum over sums that are means says so, on the graph and on the edges of all subgraphs."""
    for name in ("needle_msg", "needle_msg@agg"):
        text = SubgraphConv(4, 4, [name], aggregation={"needle": "mean"}).describe()
        assert "sum_{j ~" in text
        assert " mean_h x[h,j]" in text


def test_messages_with_edge_features() -> None:
    """As ``State.with_edges`` computes them: the sum along edges is one of relu(x + e), also of sums and inside of another one."""
    names = ["own", "local", "local_others", "root_msg", "swap_local", "needle_msg@agg", "non_roots@Ak"]
    options: dict[str, Any] = {"root_terms": ["own", "non_roots@Ak"], "aggregation": {"local": "mean"}}
    layer = SubgraphConv(4, 4, names, edge_dim=3, edge_terms=True, **options)
    text = layer.describe()
    assert "(x[k,i])" in text
    for formula in (
        "mean_{j ~_k i} relu(x[k,j] + e_ij)",
        "sum_{j ~_k i, j != k} relu(x[k,j] + e_ij)",
        "[k ~_k i] relu(x[k,k] + e_ik)",
        "sum_{h ~ k} relu(x[h,i] + e_kh)",
        "sum_g sum_{j ~_g i} relu(sum_h x[h,j] + e_ij)",
        "sum_{h ~_k i} relu(sum_{j ~_h i} relu(x[h,j] + e_ij) + e_ih)",
        "sum_{h ~_i i} relu(sum_{j ~_h h} relu(x[h,j] + e_hj) + e_ih)",
    ):
        assert f"({formula})" in text
    assert text.count("relu") == 9
    latex = layer.describe(latex=True)
    assert r"\mathrm{mean}_{j \sim_{k} i} \mathrm{relu}(x^{k}_{j} + e_{ij})" in latex
    assert r"\mathbf{1}_{[k \sim_{k} i]} \mathrm{relu}(x^{k}_{k} + e_{ik})" in latex
    assert latex.count("relu") == 9
    assert "relu" not in SubgraphConv(4, 4, names, **options).describe()


def test_equations_as_latex() -> None:
    text = SUN(4, 4, 2, 1).describe(latex=True)
    assert text._repr_latex_().startswith("$$")  # what notebooks render
    assert r"x^{k}_{i} &\leftarrow \sigma \Big( \mu^{0}\big( x^{i}_{i} \big) + \mu^{1}\big( x^{k}_{k} \big)" in text
    assert r"\gamma^{1}_{r}\big( \mathrm{mean}_{h} x^{h}_{i},\, \sum_{j \sim i} \mathrm{mean}_{h} x^{h}_{j} \big)" in text
    for name in reign.list_models():
        text = reign.build_model(name, 3, 6, 2, 1).describe(latex=True)
        assert text.startswith(r"\begin{aligned}")
        assert text.count("{") == text.count("}")
        assert "[" not in text.replace(r"\mathbf{1}_{[", "").replace("[S]", "").replace("[A]", "").replace(r"\big[", "")
    for entry in reign.list_terms():
        assert "~" not in reign.nn.latex_formula(entry.formula)
