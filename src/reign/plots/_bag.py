"""Draw the bag of a graph given on the command line. Molecules are drawn as molecules."""

from collections.abc import Sequence

from reign.draw import Picture
from reign.plots._graphs import Named
from reign.policies import policy


def draw_bag_of(graph: Named, policy_name: str, subgraphs: Sequence[int] | None = None, dark: bool = False) -> Picture:
    """Draw a graph and its subgraphs side by side.

    Args:
        graph: the graph, as returned by ``read_graph``.
        policy_name: name of the policy that selects the subgraphs.
        subgraphs: the subgraphs to draw; the first 36 if not given.
        dark: whether to draw on a dark background.
    """
    bag = policy(policy_name).from_data(graph.data)
    if graph.molecule is None:
        return bag.draw(subgraphs, dark=dark)
    from reign.plots._molecule import draw_molecule_bag

    return draw_molecule_bag(graph.molecule, bag, subgraphs, dark)
