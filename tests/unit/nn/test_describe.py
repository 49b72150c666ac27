"""What layers and models compute and cost, in words."""

import reign
from reign.nn import SUN


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
