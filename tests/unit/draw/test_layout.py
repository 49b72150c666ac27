"""Where nodes are put on paper."""

from itertools import pairwise

import numpy as np

from reign.draw._bag import place


def test_components_lie_side_by_side() -> None:
    at = place(7, [(0, 1), (1, 2), (2, 0), (3, 4), (5, 6)])
    sides = [(at[nodes, 0].min(), at[nodes, 0].max()) for nodes in ([0, 1, 2], [3, 4], [5, 6])]
    for (_, before), (after, _) in pairwise(sides):
        assert before < after


def test_no_two_nodes_coincide() -> None:
    at = place(12, [(0, i) for i in range(1, 12)])
    apart = np.linalg.norm(at[:, None] - at[None], axis=2) + 9 * np.eye(12)
    assert apart.min() > 0.99
