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
