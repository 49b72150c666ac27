"""Selection policies pi: graph -> bag of subgraphs."""

from reign.policies._base import Mark, Pairs, Policy
from reign.policies._edge import EdgeDeletion
from reign.policies._names import list_policies, policy, policy_meanings
from reign.policies._node import EgoNets, NodeDeletion, NodeMarking, Null
from reign.policies._sampled import Sampled
from reign.policies._tuples import Tuples
from reign.policies._whole import Whole

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
    "policy_meanings",
]
