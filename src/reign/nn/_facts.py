"""What is known about a kind of model, on the class itself: ``reign.theory`` reads it from there."""

from typing import Any, ClassVar


class Facts:
    """What the paper, or the literature, says about a kind of model."""

    takes_padding: ClassVar[bool] = True
    """Whether the model can run on a bag that is padded to fixed sizes."""

    drops_input: ClassVar[bool] = True
    """Whether there is dropout before the first layer, too."""

    needs_node_based: ClassVar[bool] = False
    """Does the model need exactly one subgraph per node?"""

    takes_policy: ClassVar[bool] = True
    """May the user choose the policy? Baselines that look at the graph itself have a fixed one."""

    wl_bound: ClassVar[str] = "3-WL for terms of the ReIGN(2) table; no construction here for what lies beyond it"
    """The Weisfeiler-Leman test that bounds from above what the model can tell apart, and why: for a policy of the paper's class, or
    for any graphs if the model takes no policy."""

    linear_form: ClassVar[dict[str, Any]] = {}
    """The options that give the form of the model that the paper's constructions cover: GraphConv, linear terms, sums, no norm, and
    sums over all nodes. It is empty if no construction is known."""

    @classmethod
    def for_separation(cls, layers: int) -> dict[str, Any]:
        """The arguments that give the model a depth of ``layers``, so that models can be compared on pairs of graphs.

        >>> Facts.for_separation(6)
        {'num_layers': 6}
        """
        return {"num_layers": layers}
