"""SUN and sampled roots."""

import pytest

from model_inputs import batch, run
from reign.nn import IDGNN, SUN, SubgraphGNN


def test_sun_with_sampled_roots_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match="SUN needs one subgraph per node, got .* policy 'nm@0.5' is not node-based"):
        run(SUN(3, 6, 2, 2, policy="nm@0.5"), batch())
    assert run(IDGNN(3, 6, 2, 2, policy="ego+:2@0.5"), batch()).shape == (6, 2)
    roots_of_their_own = SubgraphGNN(
        3, 6, 2, 2, policy="nm@0.5", terms=["own+local", "needle"], root_terms=["own", "needle+needle_msg"]
    )
    assert run(roots_of_their_own, batch()).shape == (6, 2)
