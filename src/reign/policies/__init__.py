"""Selection policies pi: graph -> bag of subgraphs."""

from reign.policies.base import Mark, Pairs, Policy
from reign.policies.edge import EdgeDeletion
from reign.policies.names import list_policies, policy
from reign.policies.node import EgoNets, NodeDeletion, NodeMarking, Null
from reign.policies.sampled import Sampled
from reign.policies.tuples import Tuples
from reign.policies.whole import Whole

__all__ = [
    "EdgeDeletion",
    "EgoNets",
    "Mark",
    "NodeDeletion",
    "NodeMarking",
    "Null",
    "Pairs",
    "Policy",
    "Sampled",
    "Tuples",
    "Whole",
    "list_policies",
    "policy",
]
