"""SUN and ReIGN(2) for subgraphs with several roots: pairs, triples and sets of nodes (the paper's future direction on higher-order policies).

Along a root, the other roots stay fixed, and a bag of tuples is many bags with one subgraph per node. Terms along roots are those of ``term("needle:2")``.
"""

from collections.abc import Callable
from typing import ClassVar, Unpack

from reign.bags import ALL
from reign.nn._catalogue import MODELS
from reign.nn._layer import Transform
from reign.nn._model import SubgraphGNN
from reign.nn._options import ModelOptions
from reign.nn._state import Aggregation
from reign.nn._terms import SAME
from reign.nn.models._reign2 import REIGN2_OFF
from reign.policies import Policy
from reign.policies import policy as find_policy


def tuple_sun_terms(roots: int, ordered: bool = True) -> list[str]:
    """The terms of SUN along each of some roots, or with sets along all of them.

    >>> tuple_sun_terms(2)[:4]
    ['own', 'readout', 'own+local', 'needle+needle_msg']
    >>> tuple_sun_terms(2, ordered=False)[4:]
    ['own_root:*', 'root:*', 'node_root:*', 'needle:*', 'needle_msg:*']
    """
    names = [
        "own_root",
        "root",
        "node_root",
        *(["needle", "needle_msg"] if roots > 1 else []),
    ]  # with one root these are there already
    return ["own", "readout", "own+local", "needle+needle_msg", *_along(names, roots, ordered)]


def tuple_reign2_terms(roots: int, ordered: bool = True) -> list[str]:
    """The terms of the ReIGN(2) table along each of some roots, or with sets along all of them, and the sums over all subgraphs."""
    once = [*SAME, *(["needle", "needle_msg", "total"] if roots > 1 else [])]
    table = [name for name in REIGN2_OFF if name not in (*SAME, "readout@Ak")]
    return [*once, *_along([*table, "own_root"], roots, ordered)]


def _along(names: list[str], roots: int, ordered: bool) -> list[str]:
    return [f"{name}:{place}" for place in (range(1, roots + 1) if ordered else ALL) for name in names]


class TupleModel(SubgraphGNN):
    """A model whose terms depend on the roots of its policy."""

    wl_bound = "(k + 2)-WL for k roots: conjectured, and proved for one root (Corollary: 3-WL upper-bounds ReIGN(2))"
    terms_along: ClassVar[Callable[[int, bool], list[str]]]

    @classmethod
    def terms_for(cls, policy: str | Policy) -> list[str]:
        """The terms of a layer for the subgraphs of a policy."""
        made = find_policy(policy)
        if made.num_anchors == 0:
            raise ValueError(
                f"{cls.__name__} needs subgraphs with roots, but those of policy '{made}' have none; use 'nm' or '2-nm'."
            )
        return cls.terms_along(made.num_anchors, not made.unordered)


@MODELS.register("tuplesun")
class TupleSUN(TupleModel):
    r"""SUN for subgraphs with several roots: the terms of SUN along each root, and sums over all subgraphs.

    .. math:: x^k_i \leftarrow \sigma \Big( \mu(x^k_i) + \mu(\textstyle\sum_j x^k_j) + \gamma^0(x^k_i, \sum_{j \sim_k i} x^k_j)
              + \gamma^1(\sum_h x^h_i, \sum_{j \sim i} \sum_h x^h_j) + \sum_r \text{terms along root } r \Big)

    Along root r these are: the value if the node is root r, the value of root r, the value of the node in the subgraph in which it takes the place
    of root r, the sum over all nodes in the place of root r, and the sum of these sums over neighbours. With sets, the terms along all roots are
    added before their maps. Roots have no layers of their own as in SUN; ``own_root:r`` tells them apart.

    Args:
        policy: any policy whose subgraphs have roots, such as "2-nm" or "2-set-nd".
        transform: the maps mu, "mlp" or "linear".
        needle: "mean" or "sum" over subgraphs.
    """

    terms_along = staticmethod(tuple_sun_terms)

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "2-nm",
        transform: Transform = "mlp",
        needle: Aggregation = "mean",
        **options: Unpack[ModelOptions],
    ) -> None:
        terms = self.terms_for(policy)
        how = {name: needle for name in terms if name.split(":")[0] == "needle"} | {"needle": needle}
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, policy=policy, terms=terms, transform=transform, aggregation=how, **options)


@MODELS.register("tuplereign2", "TupleReIGN(2)")
class TupleReIGN2(TupleModel):
    """ReIGN(2) for subgraphs with several roots: all terms of the paper's table along each root, and sums over all subgraphs.

    Its linear maps are those of (k + 1)-IGNs that a few of these layers compose; a single layer has fewer. The paper calls the analogue with all
    maps in one layer ReIGN(k + 1).

    Args:
        policy: any policy whose subgraphs have roots, such as "2-nm" or "2-set-nd".
        transform: "linear", as in the paper, or "mlp".
    """

    terms_along = staticmethod(tuple_reign2_terms)

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *,
        policy: str | Policy = "2-nm",
        transform: Transform = "linear",
        aggregation: dict[str, Aggregation] | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        terms = self.terms_for(policy)
        sizes = in_channels, hidden_channels, num_layers, out_channels
        super().__init__(*sizes, policy=policy, terms=terms, transform=transform, aggregation=aggregation, **options)
