"""The biconnected blocks of graphs, and the triples of nodes in one block, over which products of matrices can be summed.

A block is a largest set of nodes that stays connected if any one of them is removed; a cut vertex is in several. Blocks are those of at least three nodes:
rings and systems of rings. Two different nodes are together in at most one. They are found once for each bag, by one depth-first search, whose time is
linear in the number of edges. The direction of edges is ignored.
"""

import torch

from reign._validate import SMALL, DoesNotFit, free_memory
from reign.bags._bag import SubgraphBag
from reign.bags._graph import SharedGraph
from reign.bags._wiring import Messages
from reign.kernels import Sum, ragged

TRIPLE_BYTES = 150  # memory of a triple while the maps are made


def blocks(graph: SharedGraph) -> tuple[list[list[int]], list[int]]:
    """The nodes of every biconnected block of at least three nodes, in increasing order; and a node of its component for each node."""
    ptr, neighbour = graph.neighbours.ptr.tolist(), graph.neighbours.node.tolist()
    n = graph.num_nodes
    depth, low, component, at = [-1] * n, [0] * n, [0] * n, ptr[:n]  # ``low``: the least depth that edges lead to from below a node
    found: list[list[int]] = []
    for start in range(n):
        if depth[start] >= 0:
            continue
        depth[start], component[start] = 0, start
        path, open_nodes = [start], list[int]()  # the nodes from the start to the current one; those seen that are in no block yet
        while path:
            v = path[-1]
            if at[v] < ptr[v + 1]:
                u, at[v] = neighbour[at[v]], at[v] + 1
                if depth[u] < 0:
                    depth[u] = low[u] = len(path)
                    component[u] = start
                    path.append(u)
                    open_nodes.append(u)
                else:
                    low[v] = min(low[v], depth[u])
                continue
            path.pop()
            if not path:
                continue
            parent = path[-1]
            low[parent] = min(low[parent], low[v])
            if low[v] >= depth[parent]:  # nothing below the parent leads above it
                place = len(open_nodes) - 1
                while open_nodes[place] != v:
                    place -= 1
                if len(open_nodes) - place > 1:
                    found.append(sorted([parent, *open_nodes[place:]]))
                del open_nodes[place:]
    return found, component


def block_triples(bag: SubgraphBag) -> Messages:
    """The maps of products in blocks, see ``make_block_triples``, cached by the bag."""
    return bag.plain.cache("block triples", lambda: make_block_triples(bag.plain))


def make_block_triples(bag: SubgraphBag) -> Messages:
    r"""The maps from the rows of L[a, c] (``from_rows``) and R[c, b] (``from_edges``) to that of m[a, b], of which each triple is one summand:

    .. math:: m_{ab} = L_{aa} R_{ab} + \sum_{c \in B_{ab} \setminus \{a, b\}} L_{ac} R_{cb}, \quad m_{aa} = \sum_c L_{ac} R_{ca}

    where :math:`B_{ab}` is the block of a and b, if there is one, and c on the diagonal is any node of the component of a. Pairs of nodes in different
    components have no summands. Sums are in the order of the nodes c.
    """
    bag.require_node_based("products='blocks'")
    found, component = blocks(bag.graph)
    size = torch.tensor([len(block) for block in found], dtype=torch.long)
    number = int((size**3).sum()) + 2 * bag.num_pairs
    if number > SMALL and number * TRIPLE_BYTES > (free := free_memory(bag.device)):
        most = max(map(len, found), default=0)  # trees have no blocks
        raise DoesNotFit(
            f"products='blocks' has up to {number:,} triples of nodes, of which one block of {most} nodes has {most**3:,}: "
            f"{number * TRIPLE_BYTES / 1e9:,.1f} GB, but only {free / 1e9:,.1f} GB are free on {bag.device}. Use products='all' or smaller batches."
        )
    size = size.to(bag.device)
    member = torch.tensor([node for block in found for node in block], dtype=torch.long, device=bag.device)
    block, place = ragged.ranges(torch.zeros_like(size), size**3)
    first, s = (size.cumsum(0) - size)[block], size[block]
    a, c, b = (member[first + digit] for digit in (place // s**2, place // s % s, place % s))
    inside = (a != c) & (c != b) & (a != b)
    home = torch.tensor(component, dtype=torch.long, device=bag.device)
    near = home[bag.sub] == home[bag.node]  # subgraph and root have the same number
    one, two = bag.sub[near], bag.node[near]
    other = one != two
    a, c, b = (
        torch.cat(parts) for parts in ((a[inside], one, one[other]), (c[inside], one, two[other]), (b[inside], two, one[other]))
    )
    target = bag.row_within(a, b)
    order = (target * bag.num_nodes + c).argsort()
    a, c, b, target = (letter[order] for letter in (a, c, b, target))
    return Messages(
        Sum.broadcast(bag.row_within(a, c), bag.num_pairs, ("pair", "triple")),
        Sum.broadcast(bag.row_within(c, b), bag.num_pairs, ("pair", "triple")),
        Sum.broadcast(target, bag.num_pairs, ("pair", "triple")).t,
    )
