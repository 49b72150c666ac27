"""Encoders: made from descriptors of molecules, stored with a checksum, and the start of other models."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reign.data.molecules import Corpus
from reign.disk import read_tensors, write_tensors
from reign.experiments.pretrain import PretrainConfig, explained, pretrain, recipe_of_table
from reign.nn import OGB_ATOM
from reign.smiles import describe_all
from reign.train import fit
from reign.train.engine import engine, step
from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import make_fabric
from reign.train.engine.loop import check_training
from reign.train.engine.step import draw_targets
from reign.train.runs import encoders
from reign.train.runs.build import make_model, model_of, start_from, stereo_of
from reign.train.runs.encoders import Encoder, list_encoders
from reign.train.settings.config import ModelConfig, ScheduleConfig, TrainingConfig

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

SMILES = [chain + end for chain in ("C", "CC", "CCC", "CCCC", "CC(C)C") for end in ("", "O", "N", "Cl", "c1ccccc1", "C(=O)O")]
SMALL: dict[str, Any] = {
    "model": {"hidden_channels": 8, "num_layers": 2, "head": {"hidden": [12], "norm": "batch_norm"}},
    "train": {"epochs": 3, "batch_size": 8, "schedule": {"name": "cosine"}},
    "val_share": 0.2,
}
CPU = make_fabric("32-true", "cpu")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    file = tmp_path_factory.mktemp("corpus") / "few.smi"
    file.write_text("\n".join([*SMILES, "", "no molecule", "C1CC name of it"]))
    return Corpus.read(file, 0)


@pytest.fixture(scope="module")
def made(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    config = PretrainConfig.of(SMALL)
    return pretrain(corpus.problem(0.2), config, tmp_path_factory.mktemp("encoder"), {"data": "alkanes", "licence": "none"}, CPU)


# -- the corpus ------------------------------------------------------------------------------------------------------------


def test_a_corpus_keeps_what_can_be_read(corpus: Corpus, tmp_path: Path) -> None:
    assert (corpus.tensors["nodes"].numel(), corpus.failed) == (len(SMILES), 2)
    corpus.save(tmp_path / "c.safetensors")
    again = Corpus.load(tmp_path / "c.safetensors")
    assert all(torch.equal(again.tensors[name].nan_to_num(), corpus.tensors[name].nan_to_num()) for name in corpus.tensors)
    assert (again.names, again.failed, again.source) == (corpus.names, corpus.failed, corpus.source)
    assert set(corpus.source) == {"sha256", "limit"}
    few, gone = tmp_path / "few.smi", tmp_path / "gone.smi"
    few.write_text("C\nCC\nCCC")
    drawn = Corpus.read(few, 0, 2, 7)
    drawn.check_source(few, few, 2, 7)
    drawn.check_source(few, gone, 2, 7)
    for limit, seed, what in ((3, 7, "--limit"), (2, 8, "seed of the draw")):
        with pytest.raises(ValueError, match=f"its {what} is"):
            drawn.check_source(few, few, limit, seed)
    again.tensors["values"] = again.tensors["values"][:3]
    again.save(tmp_path / "c.safetensors")
    with pytest.raises(ValueError, match="is no corpus, expected a file written by reign pretrain"):
        Corpus.load(tmp_path / "c.safetensors")
    (tmp_path / "empty.smi").write_text("\n")
    with pytest.raises(ValueError, match="has no SMILES, expected one in each line"):
        Corpus.read(tmp_path / "empty.smi", 0)


def test_features_are_those_of_tables() -> None:
    from reign.data.molecules import from_smiles

    text = "C[C@H](N)C(=O)/C=C/Cl"
    (block,) = describe_all([text], 0)
    graph = from_smiles(text)
    assert np.array_equal(block.x, graph.x)
    assert np.array_equal(block.edge_index, graph.edge_index)
    assert np.array_equal(block.edge_attr, graph.edge_attr)


def test_descriptors_are_standardised_on_the_training_part_and_clipped(corpus: Corpus) -> None:
    problem = corpus.problem(0.2)
    train = problem.y[problem.splits["train"]]
    assert train.nanmean(0).abs().max() < 0.3  # clipping moves it a little
    assert problem.y.nan_to_num().abs().max() <= 6
    assert "MolWt" in problem.targets
    assert "NumRadicalElectrons" not in problem.targets
    assert not set(problem.splits["train"].tolist()) & set(problem.splits["val"].tolist())
    wild = Corpus({**corpus.tensors, "values": corpus.tensors["values"].clone()}, corpus.names, 0)
    wild.tensors["values"][problem.splits["val"][0]] = 1e9
    assert wild.problem(0.2).y.nan_to_num().abs().max() == 6
    assert torch.equal(wild.problem(0.2).y[problem.splits["train"]].nan_to_num(), train.nan_to_num())


# -- the training ----------------------------------------------------------------------------------------------------------


def test_a_step_learns_from_a_random_part_of_the_targets() -> None:
    y = torch.arange(20.0).reshape(2, 10)
    kept = ~draw_targets(y, 0.5, torch.Generator().manual_seed(0)).isnan()
    assert torch.equal(kept[0], kept[1])
    assert 0 < int(kept[0].sum()) < 10
    assert draw_targets(y, 1.0) is y
    few = [int((~draw_targets(y, 1e-9, torch.Generator().manual_seed(seed)).isnan())[0].sum()) for seed in range(5)]
    assert few == [1] * 5  # never none


@pytest.mark.parametrize("on_device", [False, True])
def test_the_share_of_targets_reaches_the_loss(corpus: Corpus, on_device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if on_device:
        monkeypatch.setattr(engine, "why_not_captured", lambda _: None)
    problem, seen = corpus.problem(0.2), list[int]()
    config = PretrainConfig.of(SMALL, {"train": {"target_share": 0.3, "epochs": 1}})
    loss = engine.LOSSES["mse"]

    class Watch:
        outputs = 1

        def sum(self, out: torch.Tensor, y: torch.Tensor, weights: Any = None) -> torch.Tensor:
            seen.append(int((~y.isnan()).any(0).sum()))
            return loss.sum(out, y, weights)

    monkeypatch.setattr(engine, "LOSSES", {"mse": Watch()})
    monkeypatch.setattr(engine, "choose", lambda registry, *_: "mse" if isinstance(registry, dict) else "rmse")
    fit(make_model(config.model, problem, 0), problem, config.train, fabric=CPU)
    assert seen
    assert max(seen) < 0.7 * len(problem.targets)
    assert len(set(seen)) > 1


def test_one_batch_draws_other_targets_in_every_epoch_and_with_every_seed(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, drawn = corpus.problem(0.2), list[list[bool]]()
    config = PretrainConfig.of(SMALL, {"train": {"batch_size": 99, "epochs": 4}})

    def watched(*args: Any) -> torch.Tensor:
        y = draw_targets(*args)
        drawn.append((~y.isnan()).any(0).tolist())
        return y

    monkeypatch.setattr(step, "draw_targets", watched)
    for seed in (0, 1, 0):
        fit(make_model(config.model, problem, 0), problem, config.train, seed=seed, fabric=CPU)
    assert len(drawn) == 24  # for the number of labels and for the loss
    assert drawn[::2] == drawn[1::2]
    assert len(set(map(tuple, drawn[:16]))) == 8
    assert drawn[:8] == drawn[16:]
    one = problem.select(["MolWt"])
    with pytest.raises(ValueError, match=r"train.target_share is 0.5, but the corpus has only one target"):
        fit(make_model(config.model, one, 0), one, config.train, fabric=CPU)


def test_several_processes_have_no_common_clock(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="follows the clock of one process, and there are 2"):
        check_training(PretrainConfig.of().train, corpus.problem(0.2), 2)
    check_training(PretrainConfig.of().train, corpus.problem(0.2), 1)


def test_the_clock_ends_a_training(monkeypatch: pytest.MonkeyPatch, corpus: Corpus) -> None:
    now = [0.0]
    monkeypatch.setattr("reign.train.settings.optim.time.monotonic", lambda: now[0])
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    rate = ScheduleConfig.model_validate({"name": "clock", "minutes": 1, "warmup": 0.1}).build(optimiser, 10**9)
    found = []
    for second in (100, 103, 106, 130, 159, 161):  # the first step starts the clock
        now[0] = second
        rate.after_step()
        found.append(rate.value)
    assert found[0] < found[1] < found[2] == 2.0 > found[3] > found[4] > found[5] == 0.0
    state = rate.state_dict()
    rate.load_state_dict({"elapsed": 30.0})
    now[0] = 1000
    rate.after_step()
    assert (rate.value, state) == (pytest.approx(found[3]), {"elapsed": 61.0})
    monkeypatch.undo()
    problem = corpus.problem(0.2)
    config = PretrainConfig.of(SMALL, {"train": {"epochs": 10_000, "schedule": {"name": "clock", "minutes": 0.01}}})
    assert 1 <= fit(make_model(config.model, problem, 0), problem, config.train, fabric=CPU)[0]["epochs"] < 1_000


def test_a_stopped_training_continues(corpus: Corpus, made: Encoder, tmp_path: Path) -> None:
    class Stop(Callback):
        def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
            if row["epoch"] == 1:
                raise KeyboardInterrupt

    problem, config = corpus.problem(0.2), PretrainConfig.of(SMALL, {"train": {"checkpoint_seconds": 0}})
    with pytest.raises(KeyboardInterrupt):
        pretrain(problem, config, tmp_path, {}, CPU, Stop())
    whole = pretrain(problem, config, tmp_path, {}, CPU)
    assert whole.card["validation"] == made.card["validation"]
    with pytest.raises(ValueError, match="has other settings than these; choose a new folder"):
        pretrain(problem, PretrainConfig.of(SMALL, {"seed": 1}), tmp_path, {}, CPU)


def test_explained_variance_by_hand() -> None:
    y, out = torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, torch.nan]]), torch.tensor([[0.0, 5.0, 2.0], [1.0, 5.0, 0.0]])
    assert explained(y, out)[0] == 0.5
    assert explained(y, out)[1:].isnan().all()


# -- the encoder on disk ---------------------------------------------------------------------------------------------------


def test_the_card_and_the_weights(made: Encoder, corpus: Corpus) -> None:
    assert Encoder.find(made.folder) == made
    assert made.card["data"] == "alkanes"
    assert made.card["molecules"] == {"train": 24, "val": 6}
    assert made.card["training"]["epochs"] == 3
    tensors = read_tensors(made.folder / "model.safetensors")[0]
    assert {str(value.dtype) for value in tensors.values() if value.dim() > 1} == {"torch.float16"}
    weights = made.weights()
    assert all(value.dtype == torch.float32 for value in weights.values() if value.is_floating_point())
    table = weights["node_encoder.columns.0.weight"]
    assert made.card["types_without_weights"]["atoms"] > 100
    assert (table.abs().sum(1) > 0).nonzero().flatten().tolist() == [5, 6, 7, 16]  # C, N, O and Cl
    assert table.size(0) == OGB_ATOM[0]


def test_changed_weights_are_refused(made: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(made.folder, folder)
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"has the checksum \w{16}, expected \w{16}, as its card says"):
        Encoder.find(folder)
    file.unlink()
    with pytest.raises(ValueError, match="has the checksum missing"):
        Encoder.find(folder)
    (folder / "card.json").write_text(json.dumps({"stereo": "parity"}))
    with pytest.raises(ValueError, match="it has no sha256"):
        Encoder.find(folder)
    (folder / "card.json").unlink()
    assert Encoder.find(folder) is None


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("config", r"config.json has the checksum \w{16}, expected \w{16}"),
        ("stereo", r"stereo is 'left', expected one of parity, ogb, none"),
        ("integers", r"has the type torch.int64"),
        ("variance", r"running_var has a negative variance"),
    ],
)
def test_settings_and_weights_are_checked(what: str, message: str, made: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(made.folder, folder)
    card = dict(made.card)
    tensors = read_tensors(folder / "model.safetensors")[0]
    if what == "config":
        (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    elif what == "stereo":
        card["stereo"] = "left"
    else:
        name = next(name for name in tensors if name.endswith("running_var" if what == "variance" else "head.lin2.bias"))
        tensors[name] = tensors[name].long() if what == "integers" else -tensors[name]
        write_tensors(folder / "model.safetensors", tensors)
        card["sha256"] = encoders.checksum(folder / "model.safetensors")
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match=message):
        Encoder.weights(Encoder.find(folder))  # type: ignore[arg-type]


def test_a_model_starts_from_an_encoder(made: Encoder, corpus: Corpus) -> None:
    problem = corpus.problem(0.2).select(["MolWt", "TPSA"])
    settings = ModelConfig.model_validate(model_of(made.folder))
    assert stereo_of(made.folder) == {"stereo": "parity"}
    model = make_model(settings, problem, 0)
    last = model.head.lin2.weight.clone()
    config = TrainingConfig(checkpoint=str(made.folder))
    assert start_from(model, config, problem, 0) is False
    weights = made.weights()
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items() if not name.startswith("head.lin2."))
    assert torch.equal(model.head.lin2.weight, last)
    whole = make_model(settings, corpus.problem(0.2), 1)
    last = whole.head.lin2.weight.clone()
    assert start_from(whole, config, corpus.problem(0.2), 1) is False
    assert torch.equal(whole.head.lin2.weight, last)  # also where it has the size of the new targets
    other = make_model(settings.model_copy(update={"hidden_channels": 9}), problem, 0)
    with pytest.raises(ValueError, match="do not fit this model"):
        start_from(other, config, problem, 0)


# -- the encoders that come with reign -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list_encoders())
def test_shipped_encoders(name: str) -> None:
    encoder = Encoder.find(name)
    assert encoder is not None
    assert encoder.folder.parent == encoders.SHIPPED
    assert {"data", "licence", "validation", "molecules", "training"} <= set(encoder.card)
    assert encoder.card["data"]
    assert "config_sha256" in encoder.card
    assert encoder.card["licence"]
    assert encoder.card["validation"]["r2_mean"] > 0.5
    assert sum(value.numel() for value in encoder.weights().values()) == pytest.approx(encoder.card["parameters"], rel=0.02)
    assert sum(file.stat().st_size for file in encoder.folder.iterdir()) < 4e6


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": {"name": "gin"}}, "the settings of the model"),
        ({"data": {"smiles_columns": ["a", "b"]}}, "several columns of SMILES"),
        ({"data": {"molecule_featurizers": ["rdkit_2d"]}}, "descriptors, which the encoder does not know"),
        ({"data": {"stereo": "none"}}, "data.stereo is none"),
        ({"train": {"checkpoint": None}}, ""),
        ({"train": {"checkpoint": "a run"}}, ""),
    ],
)
def test_when_training_starts_from_random_weights(changes: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reign.experiments.pretrain.list_encoders", lambda: ["one"])
    name, said = recipe_of_table(changes)
    assert name == "molecules"
    assert why in said
    assert bool(why) == said.startswith("Training starts from random weights, because ")


@pytest.mark.parametrize("columns", [3, None, True, "smiles"])
def test_columns_that_are_no_list_are_left_to_the_check_of_the_recipe(columns: object) -> None:
    assert recipe_of_table({"data": {"smiles_columns": columns}}) == ("molecules-pretrained", "")
