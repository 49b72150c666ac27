"""Data sets: generators against independent counts, files against their statistics, official sources against what we make of them."""

import pickle
import random
import sys
import types
import urllib.request
from collections import Counter
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import permutations
from pathlib import Path
from threading import Thread
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, download_url
from torch_geometric.transforms import AddRandomWalkPE, Compose
from torch_geometric.utils import to_networkx

from reign.data import CSL, EXP, SR, TU, ZINC, Counting, GraphPack, GraphProperties, MolHIV, from_networkx, load_problem
from reign.data._files import download_folder
from reign.data.sets._expressive import PATTERNS, counts
from reign.data.sets._properties import FAMILIES, labels, random_graph
from reign.data.sets._tu import SETS
from reign.theory import Census, census


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))


def count_by_hand(graph: nx.Graph, pattern: nx.Graph) -> int:
    """Injective maps of a pattern that keep its edges, over its automorphisms."""
    nodes = list(pattern)
    maps = sum(
        all(graph.has_edge(image[nodes.index(u)], image[nodes.index(v)]) for u, v in pattern.edges)
        for image in permutations(graph, len(nodes))
    )
    same = nx.algorithms.isomorphism.GraphMatcher(pattern, pattern)
    return maps // sum(1 for _ in same.isomorphisms_iter())


def patterns() -> list[nx.Graph]:
    tailed = nx.cycle_graph(3)
    tailed.add_edge(0, 3)
    return [nx.cycle_graph(3), tailed, nx.star_graph(3), nx.cycle_graph(4), nx.cycle_graph(5), nx.cycle_graph(6)]


def test_counts_are_those_of_a_search() -> None:
    graphs = [nx.gnp_random_graph(n, 0.5, seed=n) for n in (1, 4, 6, 7)] + [nx.complete_graph(6), nx.path_graph(5)]
    ours = counts(GraphPack.of([from_networkx(graph) for graph in graphs]))
    theirs = [[count_by_hand(graph, pattern) for pattern in patterns()] for graph in graphs]
    assert ours.tolist() == theirs
    assert len(PATTERNS) == ours.size(1)


def test_counts_are_those_of_the_closed_forms() -> None:
    graphs = [nx.random_regular_graph(5, 20, seed=seed) for seed in range(4)]
    pack = GraphPack.of([from_networkx(graph) for graph in graphs])
    ours = counts(pack)
    for g, graph in enumerate(graphs):
        A = nx.to_numpy_array(graph)
        power = {k: np.linalg.matrix_power(A, k) for k in (2, 3, 4)}
        assert ours[g, 0] == round(np.trace(power[3]) / 6)
        assert ours[g, 3] == round((np.trace(power[4]) + np.trace(power[2]) - 2 * power[2].sum()) / 8)


def test_the_counting_set() -> None:
    parts = {split: Counting(split=split, num_graphs=40) for split in Counting.splits}
    assert [len(part) for part in parts.values()] == [12, 8, 20]
    everything = [data for part in parts.values() for data in part]
    assert Counter(data.num_nodes for data in everything) == {10: 10, 15: 10, 20: 10, 30: 10}
    edges = {10: 20, 15: 30, 20: 30, 30: 45}  # n d / 2 - n
    assert all(data.num_edges // 2 == edges[data.num_nodes] for data in everything)
    y = torch.cat([data.y for data in everything]).double()
    torch.testing.assert_close(y.std(0), torch.ones(6, dtype=torch.float64), atol=1e-5, rtol=0)
    again = Counting(split="val", num_graphs=40, force_reload=True)
    assert torch.equal(again[3].edge_index, parts["val"][3].edge_index)
    other = Counting(split="val", num_graphs=40, seed=1)
    assert not torch.equal(other[3].edge_index, parts["val"][3].edge_index)
    assert Counting(num_graphs=20, kind="er")[0].num_nodes == 10


def test_census() -> None:
    everything = [data for split in Counting.splits for data in Counting(split=split, num_graphs=40)]
    assert census(everything) == Census(rounds=6, alike=0, pairs=780)
    degrees = Counter((data.num_nodes, *sorted(Counter(data.edge_index[0].tolist()).values())) for data in everything)
    few = census(everything, rounds=1).alike
    assert few == sum(n * (n - 1) // 2 for n in degrees.values()) > 0  # one round sees the degrees
    assert census(everything, rounds=0).alike == 4 * 45  # without a round only the number of nodes is seen


def test_properties_are_those_of_networkx() -> None:
    rng = np.random.default_rng(0)
    seen = Counter()
    for _ in range(300):
        graph = random_graph(17, rng)
        assert graph.number_of_nodes() == 17
        connected, diameter, radius = labels(graph)
        assert connected == (nx.is_connected(graph) and not nx.is_bipartite(graph))
        pieces = [graph.subgraph(piece) for piece in nx.connected_components(graph)]
        assert diameter == max(nx.diameter(piece) for piece in pieces)
        assert radius == pytest.approx(max(abs(nx.adjacency_spectrum(graph))), abs=1e-6)
        seen[bool(connected)] += 1
    assert seen[True] > 60
    assert seen[False] > 60


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n", [15, 16, 17, 24])
def test_every_family_has_n_nodes(name: str, n: int) -> None:
    for seed in range(5):
        assert FAMILIES[name][1](n, np.random.default_rng(seed)).number_of_nodes() == n
    assert sum(share for share, _ in FAMILIES.values()) == pytest.approx(1)


def test_the_graph_properties_set() -> None:
    parts = {split: GraphProperties(split=split, share=0.01) for split in GraphProperties.splits}
    assert [len(part) for part in parts.values()] == [50, 5, 15]
    y = torch.cat([data.y for data in parts["train"]])
    assert torch.equal(y.amax(0), torch.ones(3))
    assert all(data.x[:, 0].sum() == 1 for data in parts["val"])


def test_properties_are_divided_by_the_maxima_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another split has a larger value."""

    def graphs(*rows: list[float]) -> list[Data]:
        return [Data(x=torch.ones(1, 2), edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.tensor([row])) for row in rows]

    raw = {"train": graphs([1, 2, 4], [0, 8, 1]), "val": graphs([1, 16, 2]), "test": graphs([0, 4, 12])}
    monkeypatch.setattr(GraphProperties, "_generated", lambda self: raw)
    found = {split: torch.cat([data.y for data in GraphProperties(split=split)]).tolist() for split in GraphProperties.splits}
    assert found == {"train": [[1, 0.25, 1], [0, 1, 0.25]], "val": [[1, 2, 0.5]], "test": [[0, 0.5, 3]]}


# -- progress ----------------------------------------------------------------------------------------------------------


def test_the_making_of_a_set_shows_its_progress() -> None:
    loops: list[tuple[str, int]] = []

    def progress(items: Iterable[Any], label: str) -> Iterable[Any]:
        items = list(items)
        loops.append((label, len(items)))
        return items

    for _ in range(2):  # the second time it is read from the cache
        load_problem("counting", progress, kind="er", num_graphs=300)
        assert loops == [
            ("generating graphs, graph", 300),
            *((f"counting cycles of {length} nodes, chunk", 2) for length in (3, 4, 5, 6)),
        ]
    loops.clear()
    made = GraphProperties(share=0.002, progress=progress)
    assert loops == [(f"generating graphs ({split}), graph", n) for split, n in (("train", 10), ("val", 5), ("test", 5))]
    assert len(pickle.loads(pickle.dumps(made))) == 10  # although this function cannot be pickled


def test_downloads_show_their_progress(tmp_path: Path) -> None:
    """As PyG and OGB download: all of it arrives, with its headers, and in megabytes if the server says how many there are."""
    content, loops = random.Random(0).randbytes(2_500_000), []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if self.path == "/known":
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    def progress(items: Any, label: str) -> Any:
        loops.append((label, len(items)))
        return items

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        where = f"http://127.0.0.1:{server.server_port}"
        before = urllib.request.urlopen
        with download_folder(progress) as folder:
            for name in ("known", "unknown"):
                assert Path(download_url(f"{where}/{name}", folder)).read_bytes() == content
            assert urllib.request.urlopen(f"{where}/known").info()["Content-Length"] == "2500000"
        server.shutdown()
    assert loops == [
        (f"downloading {where}/known, MB", 3),
        (f"downloading {where}/unknown", 1),
        (f"downloading {where}/known, MB", 3),
    ]
    assert urllib.request.urlopen is before


def test_options_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_DATA", raising=False)
    for make, message in (
        (lambda: Counting(kind="eer"), "kind is 'eer', expected one of regular, er, chen2020"),
        (lambda: Counting(split="dev"), "split is 'dev', expected 'train' or 'val' or 'test'"),
        (lambda: Counting(size=3), "counting has no option 'size'. It has kind, num_graphs, seed"),
        (lambda: Counting(num_graphs=3), "num_graphs is 3, expected a whole number of at least 10"),
        (lambda: Counting(kind="chen2020", num_graphs=20), "leave out num_graphs and seed with kind='chen2020'"),
        (lambda: GraphProperties(source="pna", seed=1), "leave out share and seed with source='pna'"),
        (lambda: TU(set="MUTAC"), "set is 'MUTAC', expected one of MUTAG, PTC"),
        (lambda: EXP(), "EXP is read from exp.npz in the folder given by the environment variable REIGN_DATA, which is not set"),
        (lambda: GraphProperties(share=0.0), "share is 0.0, expected a number above 0"),
        (lambda: load_problem("zink"), "unknown data set 'zink'; did you mean 'zinc'?"),
    ):
        with pytest.raises(ValueError) as error:
            make()
        assert message in str(error.value)


def test_transforms_and_filters() -> None:
    def double(data: Data) -> Data:
        data.y = 2 * data.y
        return data

    plain = Counting(num_graphs=20)
    assert torch.equal(Counting(num_graphs=20, transform=double)[0].y, 2 * plain[0].y)
    small = Counting(num_graphs=20, pre_filter=lambda data: data.num_nodes < 15, force_reload=True)
    assert {data.num_nodes for data in small} == {10}


def test_graphs_of_another_transform_or_filter_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyG prints no settings of a transform, and a function can have the address of one that is gone."""
    steps = [
        Counting(num_graphs=10, pre_transform=Compose([AddRandomWalkPE(length, attr_name="pe")]))[0].pe.size(1) for length in (2, 5)
    ]
    assert steps == [2, 5]

    def kept(size: int) -> int:
        return len(Counting(num_graphs=40, pre_filter=lambda data: data.num_nodes < size))

    assert [kept(size) for size in (11, 16, 21, 31)] == sorted({kept(size) for size in (11, 16, 21, 31)})
    monkeypatch.setattr(Counting, "make", None)  # the graphs are used again if the transform or function is the same
    assert Counting(num_graphs=10, pre_transform=Compose([AddRandomWalkPE(5, attr_name="pe")]))[0].pe.size(1) == 5


def molecule(atoms: int, seed: int) -> Data:
    rng = torch.Generator().manual_seed(seed)
    ends = torch.stack([torch.arange(atoms - 1), torch.arange(1, atoms)])
    return Data(
        x=torch.randint(0, 21, (atoms, 1), generator=rng),
        edge_index=torch.cat([ends, ends.flip(0)], dim=1),
        edge_attr=torch.randint(1, 4, (atoms - 1,), generator=rng).repeat(2),
        y=torch.rand(1, generator=rng),
    )


def test_zinc_is_the_same_from_either_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The official class is replaced by one that gives some graphs, and the same graphs are written as a local file."""
    graphs = {split: [molecule(3 + g, 10 * s + g) for g in range(3)] for s, split in enumerate(ZINC.splits)}
    arrays = {}
    for split, part in graphs.items():
        arrays[f"{split}_node_ptr"] = np.cumsum([0, *(data.num_nodes for data in part)])
        arrays[f"{split}_edge_ptr"] = np.cumsum([0, *(data.num_edges // 2 for data in part)])
        arrays[f"{split}_atom_type"] = torch.cat([data.x[:, 0] for data in part]).numpy()
        once = [data.edge_index[:, : data.num_edges // 2].t() for data in part]
        arrays[f"{split}_edge_uv"] = torch.cat(once).numpy()
        arrays[f"{split}_bond_type"] = torch.cat([data.edge_attr[: data.num_edges // 2] for data in part]).numpy()
        arrays[f"{split}_y"] = torch.cat([data.y for data in part]).numpy()
    np.savez(tmp_path / "zinc12k.npz", **arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REIGN_DATA", str(tmp_path))
        with pytest.raises(ValueError, match="zinc has .* graphs, expected .*10000"):
            ZINC(tmp_path / "few")
    monkeypatch.setattr(ZINC, "sizes", {})
    monkeypatch.setenv("REIGN_DATA", str(tmp_path))
    local = {split: ZINC(tmp_path / "local", split) for split in ZINC.splits}
    monkeypatch.delenv("REIGN_DATA")
    monkeypatch.setattr("torch_geometric.datasets.ZINC", lambda root, subset, split: graphs[split])
    official = {split: ZINC(tmp_path / "official", split) for split in ZINC.splits}
    for split in ZINC.splits:
        for a, b in zip(local[split], official[split], strict=True):
            assert all(torch.equal(a[key], b[key]) for key in ("x", "edge_index", "edge_attr", "y"))


# atoms: number - 1, chirality, neighbours with hydrogens, charge + 5, hydrogens, radical electrons, hybridisation (sp 0, sp2 1, sp3 2,
# other 5), aromatic, in a ring; bonds: ends, type (aromatic 3), stereo, conjugated
OGB: dict[str, tuple[list[list[int]], list[tuple[int, ...]]]] = {
    "CCO": (
        [[5, 0, 4, 5, 3, 0, 2, 0, 0], [5, 0, 4, 5, 2, 0, 2, 0, 0], [7, 0, 2, 5, 1, 0, 2, 0, 0]],
        [(0, 1, 0, 0, 0), (1, 2, 0, 0, 0)],
    ),
    "c1ccccc1N": (
        [*[[5, 0, 3, 5, 1, 0, 1, 1, 1]] * 5, [5, 0, 3, 5, 0, 0, 1, 1, 1], [6, 0, 3, 5, 2, 0, 1, 0, 0]],
        [*((i, i + 1, 3, 0, 1) for i in range(5)), (5, 6, 0, 0, 1), (5, 0, 3, 0, 1)],
    ),
    "[Na+].[Cl-]": ([[10, 0, 0, 6, 0, 0, 5, 0, 0], [16, 0, 0, 4, 0, 0, 2, 0, 0]], []),
    "N[C@@H](C)C(=O)[O-]": (
        [
            [6, 0, 3, 5, 2, 0, 2, 0, 0],
            [5, 1, 4, 5, 1, 0, 2, 0, 0],
            [5, 0, 4, 5, 3, 0, 2, 0, 0],
            [5, 0, 3, 5, 0, 0, 1, 0, 0],
            [7, 0, 1, 5, 0, 0, 1, 0, 0],
            [7, 0, 1, 4, 0, 0, 1, 0, 0],
        ],
        [(0, 1, 0, 0, 0), (1, 2, 0, 0, 0), (1, 3, 0, 0, 0), (3, 4, 1, 0, 1), (3, 5, 0, 0, 1)],
    ),
}


def edges(data: Data) -> list[tuple[list[int], list[int]]]:
    """Every edge with its features, in an order that does not depend on how edges are listed."""
    return sorted(zip(data.edge_index.t().tolist(), data.edge_attr.tolist(), strict=True))


def test_molhiv_is_the_same_from_either_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smiles, active = list(OGB), [0, 1, 0, 1]
    splits = ["train", "train", "valid", "test"]
    import pandas as pd

    pd.DataFrame({"smiles": smiles, "HIV_active": active, "split": splits}).to_csv(tmp_path / "ogbg_molhiv.csv.xz", index=False)
    monkeypatch.setenv("REIGN_DATA", str(tmp_path))
    monkeypatch.setattr(MolHIV, "sizes", {})
    with pytest.raises(ValueError, match="active molecules, expected"):
        MolHIV(tmp_path / "few")
    monkeypatch.setattr(MolHIV, "actives", {})
    local = {split: MolHIV(tmp_path / "local", split) for split in MolHIV.splits}
    monkeypatch.delenv("REIGN_DATA")
    with pytest.raises(ValueError, match="pip install ogb"):
        MolHIV(tmp_path / "none")

    class Official:
        """Gives what OGB stores for these molecules, written out by its definitions; it lists both ways of a bond one after the other."""

        def __init__(self, name: str, root: str) -> None:
            assert name == "ogbg-molhiv"

        def get_idx_split(self) -> dict[str, np.ndarray]:
            return {split: np.array([i for i, s in enumerate(splits) if s == split]) for split in ("train", "valid", "test")}

        def __getitem__(self, g: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
            atoms, bonds = OGB[smiles[g]]
            ends = [end for u, v, *_ in bonds for end in ((u, v), (v, u))]
            kinds = [kind for _, _, *kind in bonds for _ in range(2)]
            arrays = {"node_feat": np.array(atoms), "edge_index": np.array(ends).reshape(-1, 2).T}
            return arrays | {"edge_feat": np.array(kinds).reshape(-1, 3)}, np.array([active[g]])

    module = types.ModuleType("ogb.graphproppred")
    module.GraphPropPredDataset = Official  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ogb", types.ModuleType("ogb"))
    monkeypatch.setitem(sys.modules, "ogb.graphproppred", module)
    official = {split: MolHIV(tmp_path / "official", split) for split in MolHIV.splits}
    for split in MolHIV.splits:
        for a, b in zip(local[split], official[split], strict=True):
            assert torch.equal(a.x, b.x)
            assert torch.equal(a.y, b.y)
            assert edges(a) == edges(b)


def test_the_first_molecule_of_molhiv(real_data: Path) -> None:
    """As ogbg-molhiv stores it: a copper complex with charges, whose atoms are in rings or not."""
    import pandas as pd

    from reign.data.molecules import from_smiles

    text = pd.read_csv(real_data / "ogbg_molhiv.csv.xz", nrows=1)["smiles"][0]
    assert text == "CCC1=[O+][Cu-3]2([O+]=C(CC)C1)[O+]=C(CC)CC(CC)=[O+]2"
    methyl, ethyl, carbon = [5, 0, 4, 5, 3, 0, 2, 0, 0], [5, 0, 4, 5, 2, 0, 2, 0, 0], [5, 0, 3, 5, 0, 0, 1, 0, 1]
    oxygen, copper, ring = [7, 0, 2, 6, 0, 0, 1, 0, 1], [28, 0, 4, 2, 0, 0, 5, 0, 1], [5, 0, 4, 5, 2, 0, 2, 0, 1]
    expected = [methyl, ethyl, carbon, oxygen, copper, oxygen, carbon, ethyl, methyl, ring, oxygen, carbon, ethyl, methyl, ring]
    assert from_smiles(text).x.tolist() == [*expected, carbon, ethyl, methyl, oxygen]


def test_tu_one_hot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Degrees for IMDB, tags for the others; a set of another size is refused."""
    graphs = [nx.path_graph(3), nx.star_graph(3)]
    edges = [np.array(graph.edges) for graph in graphs]
    arrays = {
        "node_ptr": np.array([0, 3, 7]),
        "node_tag": np.array([5, 2, 5, 9, 2, 2, 2]),
        "edge_ptr": np.array([0, 2, 5]),
        "edge_uv": np.concatenate(edges),
        "y": np.array([0, 2]),
    }
    np.savez(tmp_path / "tu_MUTAG.npz", **arrays)
    np.savez(tmp_path / "tu_IMDBBINARY.npz", **arrays)
    monkeypatch.setenv("REIGN_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="MUTAG has 2 graphs of 3.50 nodes, expected 188 of 17.93"):
        TU(set="MUTAG")
    monkeypatch.setattr("reign.data.sets._tu.SETS", {"MUTAG": ("", "MUTAG", 2, 3.5, 2), "IMDB-B": ("", "IMDBBINARY", 2, 3.5, 2)})
    mutag, imdb = TU(set="MUTAG"), TU(set="IMDB-B")
    assert mutag[0].x.argmax(1).tolist() == [1, 0, 1]
    assert [float(data.y) for data in mutag] == [0.0, 1.0]
    assert imdb[1].x.argmax(1).tolist() == [2, 0, 0, 0]  # degrees 1, 2, 3 occur
    assert mutag.classes == ["0", "1"]


# -- real files --------------------------------------------------------------------------------------------------------


def test_real_sizes(real_data: Path) -> None:
    zinc = load_problem("zinc")
    assert {split: ids.numel() for split, ids in zinc.splits.items()} == {"train": 10_000, "val": 1_000, "test": 1_000}
    assert float(zinc.graphs.sizes.double().mean()) == pytest.approx(23.16, abs=0.01)
    assert int(zinc.graphs.x.max()) == 20
    for name in SETS:  # they check their numbers of graphs and nodes themselves
        assert len(TU(set=name)) == SETS[name][2]
    csl = [data for split in CSL.splits for data in CSL(split=split)]
    assert Counter(int(data.y) for data in csl) == dict.fromkeys(range(10), 15)
    assert len(SR(split="all")) == 15
    exp = load_problem("exp", set="CEXP")
    assert float(exp.y.mean()) == 0.5


def test_real_properties(real_data: Path) -> None:
    """Our labels on the graphs of PNA's own generator are its labels."""
    arrays = np.load(real_data / "graphprop_pna_seed1234_regenerated.npz")
    raw = torch.from_numpy(arrays["train_graph_labels"])
    part = GraphProperties(split="val", source="pna")
    assert len(part) == 640
    for data in part[:60]:
        graph = to_networkx(data, to_undirected=True)
        torch.testing.assert_close(torch.tensor([labels(graph)]) / raw.amax(0), data.y, atol=1e-5, rtol=0)


def test_real_counts(real_data: Path) -> None:
    """Our counts on the graphs of Chen et al. are theirs, where the file has them."""
    arrays = np.load(real_data / "counting_er_chen2020.npz")
    part = Counting(split="test", kind="chen2020")
    pack = part.pack()
    ours = counts(pack).double()
    ids = arrays["test_idx"]
    for name, column in (("y_triangle", 0), ("y_star", 2)):
        theirs = torch.from_numpy(arrays[name]).double()
        assert torch.equal(ours[:, column], theirs[ids]), name
        torch.testing.assert_close(pack.y[:, column].double(), theirs[ids] / theirs.std(), atol=1e-6, rtol=0)


def test_real_molecules_are_not_lost(real_data: Path) -> None:
    import pandas as pd

    from reign.data.molecules import from_smiles

    table = pd.read_csv(real_data / "ogbg_molhiv.csv.xz")
    for row in (137, 987, 12882, 18293, 30784, 30785, 35728):
        with pytest.raises(ValueError, match="valence"):
            from_smiles(table["smiles"][row])
        data = from_smiles(table["smiles"][row], strict=False)
        assert data.num_nodes > 5
        assert data.edge_attr.size(0) == data.num_edges


def test_a_download_that_fails_says_where_to_put_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no network")

    before = urllib.request.urlopen
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    said = r"the download failed \(.*no network.*\). Without a network, put zinc12k.npz .* the environment variable REIGN_DATA"
    with pytest.raises(ValueError, match=said), download_folder(lambda items, _: items, "zinc12k.npz"):
        urllib.request.urlopen("http://127.0.0.1")
    assert before is not urllib.request.urlopen is refuse
