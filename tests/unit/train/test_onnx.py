"""ONNX files: the same predictions as the models they were made from, by onnxruntime, and by a program without torch and without reign."""

import csv
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from reign.experiments import find_recipe  # noqa: E402
from reign.nn import Model, OnnxGraph, OnnxModel, SubgraphConv, build_model  # noqa: E402
from reign.smiles import LARGE, Molecule, from_smiles  # noqa: E402
from reign.smiles import _onnx as program  # noqa: E402
from reign.train import Recipe, load, train  # noqa: E402
from reign.train.predict.predictor import Predictor  # noqa: E402
from reign.train.runs.onnx import PROGRAM, export_onnx  # noqa: E402

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

# one atom; atoms without bonds; salts; rings; chirality, where the order of neighbours is known or not; E and Z; rare elements, charges and radicals
SMILES = [
    "C", "[Na+].[Cl-]", "CCO", "CC(=O)Oc1ccccc1C(=O)O", "CC(C)[C@H](N)C(=O)[O-].[K+]", "C[C@H]1CC[C@H](C)CC1", "C[C@H]1CC[C@@H](C)CC1",
    "C[C@@](F)(Cl)Br", "O[C@H](C)[C@@H](N)C", "C/C=C/C", "C/C=C\\C", "F/C=C\\[C@H](O)/C=C/F", "C[S@](=O)CC", "[CH3]", "C[N+](C)(C)C", "[Cu+2].[O-]S(=O)(=O)[O-]",
    "c1ccc2c(c1)[nH]c1ccccc12", "C1CC2CCC1CC2", "N#CC#N", "C" * 30, "C1C[C@H]2[C@@H]1[C@H]1CC[C@H]12", "C[C@H](O)[C@@H](F)[C@H](O)C", "[2H]C([2H])O", "F[P-](F)(F)(F)(F)F",
]  # fmt: skip


def shaken(model: Model) -> Model:
    """A model in evaluation mode whose norms and epsilons are not those of a new one."""
    rng = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.copy_(torch.randn(module.num_features, generator=rng) / 3)
            module.running_var.copy_(torch.rand(module.num_features, generator=rng) + 0.5)
            torch.nn.init.normal_(module.weight, 1.0, 0.3)
            torch.nn.init.normal_(module.bias, 0.0, 0.3)
        if hasattr(module, "eps") and isinstance(module.eps, torch.nn.Parameter):
            module.eps.data.normal_(0.0, 0.3)
    return model.eval()


def session_of(model: Model) -> Any:
    from onnx import TensorProto, helper

    graph = OnnxGraph()
    out = OnnxModel(model, graph, "atoms", "bonds", "kinds").outputs()
    shapes: dict[str, list[Any]] = {"atoms": ["n", 9], "bonds": [2, "e"], "kinds": ["e", 3]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, None])]
    made = helper.make_graph(graph.nodes, "g", inputs, outputs, list(graph.weights.values()))
    file = helper.make_model(made, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])
    onnx.checker.check_model(file, full_check=True)
    return onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])


MODELS: list[dict[str, Any]] = [
    {"name": "sun", "residual": True},
    {"name": "sun", "policy": "ego+:1", "transpose": True, "root_norms": "pairs"},
    {"name": "sun", "policy": "ego:2", "readout": False, "transform": "linear", "needle": "sum", "residual": "identity"},
    {"name": "sun", "policy": "ego+single:2", "edge_encoder": None, "expansion": 2, "norm": None},
    {"name": "subgraphgnn", "policy": "ego+:20", "norm_at": "sum", "terms": ["own", "root", "needle", "own+local"], "root_terms": ["own", "readout"]},
    {"name": "dss", "policy": "ego+:2", "residual": True, "head": {"hidden": [8, 4], "norm": "batch_norm"}},
    {"name": "dss", "policy": "ego:3", "readout": "sum", "subgraphs": "sum", "needle": "sum"},
    {"name": "ds", "policy": "ego+:2", "set_channels": []},
    {"name": "subgraphgnn", "terms": ["own", "node_root", "transpose", "own+local"], "root_terms": ["own+local", "root"], "roots": "added", "norm_at": "end"},
    {"name": "dss", "policy": "ego+:1", "domain": "members", "subgraphs": "sum", "residual": True, "head": {"hidden": [16], "norm": "batch_norm"}},
    {"name": "sun", "policy": "ego+:2", "domain": "members", "residual": True},
    {"name": "sun", "policy": "ego:1", "domain": "members", "transpose": True, "readout": "sum", "root_norms": "pairs"},
    {"name": "subgraphgnn", "domain": "members", "terms": ["own", "transpose", "readout", "own+local"], "root_terms": ["own+local", "root"], "roots": "added", "aggregation": {"readout": "mean"}},
    {"name": "subgraphgnn", "terms": ["own", "readout", "needle"], "transform": "linear", "aggregation": {"readout": "mean"}, "edge_encoder": None, "on_pairs": True},
]  # fmt: skip


@pytest.mark.parametrize(
    "options", MODELS, ids=lambda options: f"{options['name']}-{options.get('policy', '')}-{options.get('domain', 'all')}"
)
def test_the_same_predictions_as_the_model(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    chosen = {"node_encoder": "atom", "edge_encoder": "bond"} | {k: v for k, v in options.items() if k != "name"}
    model = shaken(build_model(options["name"], 12, 12, 3, 2, **chosen))
    session = session_of(model)
    for text in SMILES:
        data = from_smiles(text)
        feed = dict(
            zip(("atoms", "bonds", "kinds"), (data.x.numpy(), data.edge_index.numpy(), data.edge_attr.numpy()), strict=True)
        )
        with torch.no_grad():
            expected = model(data).numpy()
        np.testing.assert_allclose(session.run(None, feed)[0], expected, atol=1e-4, rtol=1e-4, err_msg=text)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "sun", "policy": "nm"}, "SUN has the policy 'nm'"),
    ({"name": "sun", "policy": "ego+distance:2"}, r"the policy 'ego\+distance:2'"),
    ({"name": "sun", "jk": "cat"}, "jk='cat'"),
    ({"name": "sun", "act": "elu"}, "the module ELU"),
    ({"name": "sun", "norm": "layer_norm"}, "the module LayerNorm"),
    ({"name": "sun", "conv": "gcn", "edge_encoder": None}, "the transform GCN of 'own.local'"),
    ({"name": "sun", "virtual_node": True}, "labels, encodings or a virtual node"),
    ({"name": "sun", "node_encoder": "atom+3"}, "other features of nodes than types of atoms"),
    ({"name": "sun", "edge_encoder": 4}, "other features of edges than types of bonds"),
    ({"name": "sun", "task_level": "node"}, "predictions at the level of a node"),
    ({"name": "sun", "head": {"log_softmax": True}}, "a head with log_softmax"),
    ({"name": "dss", "set_channels": [4]}, "the pooling DeepSets"),
    ({"name": "dss", "aggregated_adjacency": True}, "the term 'needle.needle_msg@agg'"),
    ({"name": "subgraphgnn", "terms": ["own", "local"], "edge_encoder": None}, "the term 'local'"),
    ({"name": "reign2", "edge_encoder": None}, "ReIGN2 has the term"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_other_models_are_refused(options: dict[str, Any], message: str) -> None:
    chosen = {"node_encoder": "atom", "edge_encoder": "bond"} | {k: v for k, v in options.items() if k != "name"}
    model = build_model(options["name"], 6, 6, 2, 1, **chosen)
    with pytest.raises(ValueError, match=f"{message}.*, but an ONNX file can hold SUN and DSS"):
        OnnxModel(model.eval(), OnnxGraph(), "atoms", "bonds", "kinds")


def test_layers_with_a_domain_of_their_own_are_refused() -> None:
    model = build_model("sun", 6, 6, 2, 1, node_encoder="atom", edge_encoder="bond", domain="members")
    cast(SubgraphConv, model.layers[1]).domain = "all"
    with pytest.raises(ValueError, match="SUN has domain='members', and a layer with domain='all', but an ONNX file"):
        OnnxModel(model.eval(), OnnxGraph(), "atoms", "bonds", "kinds")


# -- the program ---------------------------------------------------------------------------------------------------------------


def check_features(texts: list[str], stereo: Any) -> None:
    for text in texts:
        mine = program.features(Chem.MolFromSmiles(text.strip()), stereo)
        for found, expected in zip(mine, Molecule.read(text, stereo=stereo).arrays(), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=text)


@pytest.mark.parametrize("stereo", ["parity", "ogb", "none"])
def test_features_of_the_program(stereo: str) -> None:
    check_features(SMILES, stereo)


def test_features_of_real_molecules(real_data: Path) -> None:
    texts = list(pd.read_csv(real_data / "esol.csv")["smiles"]) + list(
        pd.read_csv(real_data / "moleculeace.csv.xz", nrows=4000)["smiles"][::4]
    )
    assert sum("@" in text for text in texts) > 100
    check_features(texts, "parity")


def test_the_program_is_short_and_imports_no_more_than_it_says() -> None:
    text = Path(program.__file__).read_text()
    assert len(text.splitlines()) <= 120
    imports = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert imports == {"csv", "json", "sys", "typing", "numpy", "onnxruntime", "rdkit"}


def trained(folder: Path, task: str, **changes: Any) -> Path:
    """A run of two small models on the molecules above."""
    rows = [text for text in SMILES for _ in range(3)]
    labels = {
        "regression": [300 + 5 * len(t) for t in rows],
        "classification": [len(t) % 2 for t in rows],
        "multiclass": ["abc"[len(t) % 3] for t in rows],
    }
    table = pd.DataFrame({"smiles": rows, "y": labels[task]})
    if task == "classification":
        table["z"] = [(len(t) // 2) % 2 for t in rows]
    folder.mkdir(parents=True)
    table.to_csv(folder / "table.csv", index=False)
    columns = [c for c in table.columns if c != "smiles"]
    settings: dict[str, Any] = {
        "seeds": [0, 1], "data": {"path": str(folder / "table.csv"), "task": task, "target_columns": columns},
        "model": {"name": "sun", "hidden_channels": 8, "num_layers": 2, "residual": True},
        "train": {"epochs": 3, "batch_size": 16, "scale_targets": task == "regression", "optimiser": {"lr": 0.01}},
    }  # fmt: skip
    for part, values in changes.items():
        settings[part] = {**settings[part], **values}
    train(Recipe.model_validate(settings), folder / "run")
    return folder / "run"


@cache
def shared(every: Path, task: str) -> Path:
    """One such run for all tests, which leave it as it is."""
    return trained(every / task, task)


BLOCKED = """
import sys, runpy
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "reign", "torch_geometric", "onnx"):
            raise ImportError(name + " must not be needed")
sys.meta_path.insert(0, Refuse())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_program(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-c", BLOCKED, str(folder / PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.parametrize("task", ["regression", "classification", "multiclass"])
def test_a_run_without_torch(task: str, tmp_path: Path) -> None:
    """All columns of predictions are those of ``reign predict``; molecules that have none say why."""
    run = shared(tmp_path.parent, task)
    out = tmp_path / "out"
    assert export_onnx(run, out / "model.onnx", 25) == out / PROGRAM
    given = [*SMILES, "not a molecule", "", "C C"]
    pd.DataFrame({"id": range(len(given)), "smiles": given}).to_csv(out / "in.csv", index=False)
    done = run_program(out, "model.onnx", "in.csv", "out.csv")
    assert done.returncode == 0, done.stderr
    assert f"4 of {len(given)} rows have an error in place of a prediction" in done.stderr
    with (out / "out.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    expected = load(run).predict([text or "x" for text in given], uncertainty=False, warnings=False)
    names = [c for c in expected.columns if c not in ("smiles", "error")]
    assert list(found[0]) == ["id", "smiles", *names, "error"]
    for row, (_, theirs) in zip(found, expected.iterrows(), strict=True):
        if row["smiles"] == "C" * 30:
            assert row["error"] == "the molecule has 30 atoms, expected at most 25; export with --max-atoms"
        elif theirs["error"]:
            assert row["error"] == f"{row['smiles']!r} is not a SMILES"
            assert not any(row[name] for name in names)
        else:
            assert row["error"] == ""
            for name in names:
                if isinstance(theirs[name], str):
                    assert row[name] == theirs[name]
                else:
                    assert float(row[name]) == pytest.approx(theirs[name], abs=1e-4, rel=1e-5)
    assert expected[names[-1]].astype(float).std() > 0.001


def test_tables_that_the_program_cannot_read(tmp_path: Path) -> None:
    """One line says what is wrong; marks of UTF-8, and letters of other encodings in other columns, are no fault."""
    out = tmp_path / "out"
    export_onnx(shared(tmp_path.parent, "regression"), out / "model.onnx")
    (out / "bytes.onnx").write_bytes(b"no model")
    tables = {
        "bom.csv": b"\xef\xbb\xbfsmiles,name\nCCO,gr\xfcn\n\xe9,x\n", "wide.csv": b"name,smiles\na,CCO\nb,CCO,1\n", "none.csv": b"",
        "taken.csv": b"smiles,y_pred\nCCO,1\n", "utf16.csv": "smiles\nCCO\n".encode("utf-16"),
    }  # fmt: skip
    for name, content in tables.items():
        (out / name).write_bytes(content)
    done = run_program(out, "model.onnx", "bom.csv", "out.csv")
    assert done.returncode == 0, done.stderr
    lines = (out / "out.csv").read_bytes().splitlines()
    assert lines[0] == b"smiles,name,y_pred,error"
    assert lines[1].startswith(b"CCO,gr\xfcn,")
    assert lines[2].endswith(b"is not a SMILES")
    (out / "plain.csv").write_text("smiles\nCCO\n")
    shown = run_program(out, "model.onnx", "plain.csv")  # without a file to write
    assert (shown.returncode, shown.stdout.splitlines()[0]) == (0, "smiles,y_pred,error")
    assert shown.stdout.splitlines()[1].startswith("CCO,")
    assert shown.stderr == "0 of 1 rows have an error in place of a prediction.\n"
    for arguments, message in (
        (("model.onnx", "gone.csv"), "No such file or directory: 'gone.csv'"),
        (("gone.onnx", "bom.csv"), "gone.onnx is not a file made by reign export --onnx (NoSuchFile"),
        (("bytes.onnx", "bom.csv"), "bytes.onnx is not a file made by reign export --onnx"),
        (("model.onnx", "wide.csv"), "row 2 of wide.csv has more fields than the table has columns."),
        (("model.onnx", "none.csv"), "none.csv has no rows, or no column 'smiles'"),
        (("model.onnx", "utf16.csv"), "utf16.csv has no rows, or no column 'smiles'; expected a CSV in UTF-8."),
        (("model.onnx", "taken.csv"), "taken.csv already has a column 'y_pred', which the predictions need; rename it."),
        (("model.onnx", "bom.csv", "no/such/folder.csv"), "No such file or directory: 'no/such/folder.csv'"),
    ):
        told = run_program(out, *arguments)
        assert (told.returncode, told.stdout) == (1, "")
        assert message in told.stderr
        assert told.stderr.count("\n") == 1, told.stderr


def test_300_real_molecules(real_data: Path, tmp_path: Path) -> None:
    run = trained(
        tmp_path / "data", "regression", model={"hidden_channels": 16, "num_layers": 3, "name": "dss", "policy": "ego+:2"}
    )
    export_onnx(run, tmp_path / "model.onnx")
    texts = list(pd.read_csv(real_data / "esol.csv")["smiles"][:150]) + list(
        pd.read_csv(real_data / "moleculeace.csv.xz", nrows=1500)["smiles"][::10]
    )
    assert len(texts) == 300
    found = program.OnnxPredictor(str(tmp_path / "model.onnx")).predict(texts)
    expected = load(run).predict(texts, uncertainty=False, warnings=False)["y_pred"]
    assert program.OnnxPredictor(str(tmp_path / "model.onnx")).predict(texts[0]) == found[:1]
    assert max(abs(row["y_pred"] - theirs) for row, theirs in zip(found, expected, strict=True)) < 1e-4


@cache
def default_run(every: Path) -> Path:
    """A run with the default settings for numbers, which starts from molecules-1, after one epoch."""
    (folder := every / "default").mkdir()
    pd.DataFrame({"smiles": SMILES * 3, "y": [len(text) / 4 for text in SMILES * 3]}).to_csv(folder / "table.csv", index=False)
    changes: dict[str, Any] = {
        "data": {"path": str(folder / "table.csv"), "target_columns": ["y"]},
        "train": {"epochs": 1, "batch_size": 16},
    }
    recipe = find_recipe("molecules-pretrained", changes)[0]
    assert (recipe.train.checkpoint, recipe.model.options["domain"]) == ("molecules-1", "members")
    train(recipe, folder / "run")
    return folder / "run"


def check_default_run(run: Path, folder: Path, texts: list[str]) -> None:
    """The predictions for molecules are those of the run; on several threads, too."""
    export_onnx(run, folder / "model.onnx")
    expected = load(run).predict(texts, uncertainty=False, warnings=False)["y_pred"].to_numpy(float)
    for threads in (1, 3):
        found = program.OnnxPredictor(str(folder / "model.onnx"), threads).predict(texts)
        np.testing.assert_allclose([row["y_pred"] for row in found], expected, atol=1e-4, rtol=0)
    assert expected.std() > 0.1
    nodes = onnx.load(str(folder / "model.onnx")).graph.node
    assert not any(attribute.name == "reduction" for node in nodes for attribute in node.attribute)  # not safe on several threads


def test_the_default_run(tmp_path: Path) -> None:
    check_default_run(default_run(tmp_path.parent), tmp_path, SMILES)


def test_the_default_run_on_300_real_molecules(real_data: Path, tmp_path: Path) -> None:
    texts = list(pd.read_csv(real_data / "esol.csv")["smiles"][:150]) + list(
        pd.read_csv(real_data / "moleculeace.csv.xz", nrows=1500)["smiles"][::10]
    )
    assert len(texts) == 300
    check_default_run(default_run(tmp_path.parent), tmp_path, texts)


def test_a_file_that_predicts_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a run whose predictions are not only those of its models; a tenth of a deviation counts, however far targets are from 0."""
    run, predict = shared(tmp_path.parent, "regression"), Predictor.predict
    scale = Predictor(run).models[0].scale
    assert float(scale.mean) > 300
    assert float(scale.mean) > 6 * float(scale.deviation)

    def with_more(self: Predictor, *args: Any, **options: Any) -> pd.DataFrame:
        return predict(self, *args, **options).assign(y_pred=lambda table: table["y_pred"] + 0.1 * float(scale.deviation))

    monkeypatch.setattr(Predictor, "predict", with_more)
    with pytest.raises(ValueError, match=r"the ONNX file would predict \[.*\] for C, and the run predicts .* Use reign predict"):
        export_onnx(run, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    run = shared(tmp_path.parent, "regression")
    pd.read_csv(run.parent / "table.csv").assign(solvent="O").to_csv(tmp_path / "two.csv", index=False)
    data = {"path": str(tmp_path / "two.csv"), "target_columns": ["y"], "smiles_columns": ["smiles", "solvent"]}
    train(
        Recipe.model_validate({"seeds": [0], "data": data, "model": {"hidden_channels": 4}, "train": {"epochs": 1}}),
        tmp_path / "pair",
    )
    with pytest.raises(
        ValueError, match="the run has the SMILES columns smiles, solvent, but an ONNX file can hold runs with one column only"
    ):
        export_onnx(tmp_path / "pair", tmp_path / "model.onnx")
    settings = Recipe.load(run / "recipe.yaml").model_copy(update={"ensemble_with": ["forest", "gp"], "seeds": [0]})
    train(settings, tmp_path / "mixed")
    with pytest.raises(
        ValueError,
        match="trained with --ensemble-with .* alone, without the forest and the Gaussian process; .* train the network without",
    ):
        export_onnx(tmp_path / "mixed", tmp_path / "model.onnx")
    for most in (0, LARGE + 1):
        with pytest.raises(ValueError, match=f"max_atoms is {most}, expected 1 to 2,000"):
            export_onnx(run, tmp_path / "model.onnx", most)
    with pytest.raises(ValueError, match=r"the output is .*Predict_ONNX.py, which is the name of the program next to the model"):
        export_onnx(run, tmp_path / "Predict_ONNX.py")
    assert not (tmp_path / PROGRAM).exists()
    run = trained(
        tmp_path / "several",
        "regression",
        data={"path": str(tmp_path / "several" / "table.csv"), "molecule_featurizers": ["morgan_count"]},
    )
    with pytest.raises(ValueError, match="the run has descriptors, but an ONNX file can hold runs on graphs alone"):
        export_onnx(run, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
