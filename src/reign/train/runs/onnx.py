"""A run as one ONNX file: all of its models and their mean, in the units of the targets; and the program that predicts with it."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reign._version import __version__
from reign.disk import write_bytes
from reign.nn import OnnxGraph, OnnxModel
from reign.train.predict.predictor import Predictor

PROGRAM = "predict_onnx.py"
OPSET, FORMAT = 18, 8  # understood by onnxruntime from 1.14 on


def export_onnx(run: str | Path, output: str | Path, max_atoms: int = 200) -> Path:
    """Write a finished run on a table of molecules as an ONNX file, and next to it the program that predicts with it. Return the path of the program.

    Its inputs are integers: "atoms" (atoms, 9), "bonds" (2, bonds) with both directions, and "bond_types" (bonds, 3). Its output "values" has a number
    for each target, or the probability of each class: the mean over models that ``reign predict`` gives.

    Args:
        run: the folder of the run, or a zip made by ``reign export``.
        output: the file to write.
        max_atoms: the largest molecule that the program takes; memory grows with the square of the number of atoms.
    """
    try:
        from onnx import TensorProto, checker, helper
    except ModuleNotFoundError:
        raise ValueError("an ONNX file needs the package onnx, which is not installed: pip install 'reign[onnx]'.") from None
    from reign.data.molecules import LARGE

    ensemble, output = Predictor(run), Path(output)
    data, program = ensemble.recipe.data, output.parent / PROGRAM
    if output.name.lower() == PROGRAM:
        raise ValueError(
            f"the output is {output}, which is the name of the program next to the model; choose another name, such as model.onnx."
        )
    ensemble.need_smiles("an ONNX file can hold runs on molecules only.")
    if not 1 <= max_atoms <= LARGE:
        raise ValueError(
            f"max_atoms is {max_atoms}, expected 1 to {LARGE:,}; reign drops the chirality of larger molecules, the program cannot."
        )
    if len(data.smiles_columns) > 1:
        raise ValueError(
            f"the run has the SMILES columns {', '.join(data.smiles_columns)}, but an ONNX file can hold runs with one column only."
        )
    if data.has_descriptors:
        raise ValueError("the run has descriptors, but an ONNX file can hold runs on graphs alone; train one without descriptors.")
    if ensemble.partners:
        raise ValueError(
            f"the run was trained with --ensemble-with (ensemble_with), but an ONNX file would hold the network alone, without {ensemble.beside_words}; "
            "predict with reign predict, or train the network without --ensemble-with and export that run."
        )
    graph, made = OnnxGraph(), []
    for member in ensemble.models:
        out = OnnxModel(member.model.eval(), graph, "atoms", "bonds", "bond_types").outputs()
        out = graph("Slice", out, [0], [member.num_outputs], [1])
        out = graph("Add", graph("Mul", out, member.scale.deviation), member.scale.mean)
        if ensemble.task != "regression":
            out = graph("Sigmoid", out) if ensemble.task == "classification" else graph("Softmax", out, axis=1)
        made.append(out)
    mean = graph("ReduceMean", graph("Concat", *made, axis=0), [0], keepdims=0)
    nodes = [*graph.nodes, helper.make_node("Identity", [mean], ["values"])]
    shapes: dict[str, list[str | int | None]] = {"atoms": ["atoms", 9], "bonds": [2, "bonds"], "bond_types": ["bonds", 3]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in shapes.items()]
    values = helper.make_tensor_value_info("values", TensorProto.FLOAT, [ensemble.models[0].num_outputs])
    made_graph = helper.make_graph(nodes, "reign", inputs, [values], list(graph.weights.values()))
    model = helper.make_model(
        made_graph,
        producer_name="reign",
        producer_version=__version__,
        ir_version=FORMAT,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    about = {
        "targets": ensemble.targets, "task": ensemble.task, "classes": ensemble.classes, "stereo": data.stereo_of_graphs,
        "smiles_column": data.smiles_columns[0], "max_atoms": max_atoms,
    }  # fmt: skip
    helper.set_model_props(model, {"reign": json.dumps(about)})
    checker.check_model(model, full_check=True)
    _compare(model, ensemble)
    write_bytes(output, model.SerializeToString())
    write_bytes(program, resources.files("reign.smiles").joinpath("_onnx.py").read_bytes())
    return program


EXAMPLES = ("C", "[Na+].[Cl-]", "C[C@H](N)C(=O)O", "CC(=O)Oc1ccccc1C(=O)O")
CLOSE = 0.02  # differences that are rounding, in deviations of the targets: runs in bf16 have large ones


def _compare(model: Any, predictor: Predictor) -> None:
    """Raise ``ValueError`` unless the graph, evaluated without onnxruntime, predicts what the run predicts for a few molecules."""
    from onnx.reference import ReferenceEvaluator

    from reign.data.molecules import Molecule

    evaluate, stereo = ReferenceEvaluator(model), predictor.recipe.data.stereo_of_graphs
    table = predictor.predict(EXAMPLES, uncertainty=False, warnings=False)
    names = [f"{predictor.targets[0]}_prob_{name}" for name in predictor.classes] or [
        f"{target}_pred" for target in predictor.targets
    ]
    scale = torch.stack([member.scale.deviation for member in predictor.models]).amax(0).numpy()
    for text, expected in zip(EXAMPLES, table[names].to_numpy(float), strict=True):
        inputs = [array.astype(np.int64) for array in Molecule.read(text, stereo=stereo).arrays()]
        outputs: Any = evaluate.run(None, dict(zip(("atoms", "bonds", "bond_types"), inputs, strict=True)))
        found = np.asarray(outputs[0])
        if not (np.abs(found - expected) <= CLOSE * scale + 1e-5 * np.abs(expected)).all():
            raise ValueError(
                f"the ONNX file would predict {found.tolist()} for {text}, and the run predicts {expected.tolist()}: it has a part that an ONNX "
                "file cannot hold. Use reign predict."
            )
