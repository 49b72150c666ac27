"""Selection policies pi: graph -> bag of subgraphs."""

import reign._pyg  # noqa: F401
from reign.policies._base import POLICIES, Mark, Missing, Pairs, Policy

# isort: off
# policies are listed in the order of these imports: node-based ones first
from reign.policies._node import EgoNets, NodeDeletion, NodeMarking, Null
from reign.policies._edge import EdgeDeletion
from reign.policies._tuples import Tuples
from reign.policies._central import Central
from reign.policies._whole import Whole, whole
from reign.policies._sampled import Sampled

# isort: on
from reign.policies._names import BagSizes, bag_sizes, example_graph, list_policies, policy, policy_meanings

__all__ = [
    "POLICIES", "BagSizes", "Central", "EdgeDeletion", "EgoNets", "Mark", "Missing", "NodeDeletion", "NodeMarking", "Null",
    "Pairs", "Policy", "Sampled", "Tuples", "Whole", "bag_sizes", "example_graph", "list_policies", "policy", "policy_meanings",
    "whole",
]  # fmt: skip
