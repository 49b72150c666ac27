"""The bag of a graph that a user named: a molecule is drawn as a molecule."""

from collections.abc import Sequence

from reign.draw import Picture
from reign.plots._graphs import Named
from reign.policies import policy


def draw_bag_of(graph: Named, policy_name: str, subgraphs: Sequence[int] | None = None, dark: bool = False) -> Picture:
    """The graph and its subgraphs side by side.

    Args:
        graph: the graph, as ``read_graph`` gives it.
        policy_name: the policy that selects the subgraphs.
        subgraphs: which ones to draw; the first 36 if not given.
        dark: whether to draw for dark paper.
    """
    bag = policy(policy_name).from_data(graph.data)
    if graph.molecule is None:
        return bag.draw(subgraphs, dark=dark)
    from reign.plots._molecule import draw_molecule_bag

    return draw_molecule_bag(graph.molecule, bag, subgraphs, dark)
