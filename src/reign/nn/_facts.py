"""Theoretical facts about a model class, stored on the class itself, where ``reign.theory`` reads them."""

from typing import Any, ClassVar


class Facts:
    """What the paper, or other literature, proves about a model class."""

    drops_input: ClassVar[bool] = True
    """Whether dropout is also applied before the first layer."""

    needs_node_based: ClassVar[bool] = False
    """Whether the model needs exactly one subgraph per node."""

    takes_policy: ClassVar[bool] = True
    """Whether the user can choose the policy. Baselines that work on the graph itself have a fixed one."""

    wl_bound: ClassVar[str] = "3-WL for terms of the ReIGN(2) table; no construction here for other terms"
    """The Weisfeiler-Leman test that is an upper bound on what the model can tell apart, and the reason. It holds for the policies
    covered by the paper, or for all graphs if the model takes no policy."""

    linear_form: ClassVar[dict[str, Any]] = {}
    """The options that select the form of the model covered by the paper's constructions: GraphConv, linear terms, no norm, and sums
    (not means) over all nodes. It is empty if no construction is known."""

    @classmethod
    def for_separation(cls, layers: int) -> dict[str, Any]:
        """The arguments that give the model a depth of ``layers``, used to compare models on pairs of graphs.

        >>> Facts.for_separation(6)
        {'num_layers': 6}
        """
        return {"num_layers": layers}
