"""GNN-AK and its distances."""

import torch

from reign.policies import NodeMarking


def test_distances_beyond_the_cap_are_the_same_in_both_domains() -> None:
    path = torch.stack([torch.arange(9), torch.arange(1, 10)])
    for domain in ("all", "members"):
        bag = NodeMarking()(torch.ones(10, 1), path, domain=domain)
        assert bag.hops(5)[:10].tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]
