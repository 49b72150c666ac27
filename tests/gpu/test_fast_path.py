"""The fast path on a GPU: it learns what the plain path learns, and takes large graphs. Run with ``pytest -m gpu``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch_geometric.data import Data

import reign
from golden import Golden
from learning import Curve
from reign.data import Problem
from reign.experiments import find_recipe
from reign.experiments.bench import _random_molecules
from reign.nn import from_authors
from reign.train import fit, train
from reign.train.engine import captured
from reign.train.engine.captured import CapturedEngine
from reign.train.engine.execution import make_fabric
from reign.train.runs.build import make_model
from reign.train.settings.config import ModelConfig, OptimiserConfig, TrainingConfig
from reproduction.test_golden import FILES

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]
IEEE = TrainingConfig(epochs=10, batch_size=64, loss="l1", metric="mae", precision="32-ieee")


def curve(problem: Problem, config: TrainingConfig, model: ModelConfig, seed: int = 0) -> Curve:
    found = Curve()
    fit(make_model(model, problem, seed), problem, config, fabric=make_fabric(config.precision, "cuda"), callback=found)
    return found


def distance(losses: list[float], exact: list[float]) -> float:
    return max(abs(a / b - 1) for a, b in zip(losses, exact, strict=True))


def small(name: str, **options: Any) -> ModelConfig:
    return ModelConfig(name=name, hidden_channels=16, num_layers=3, **options)


ALONG = ("tuplesun", "tuplereign2")  # models of terms along several roots, which run batch by batch


def molecules_for(name: str) -> Problem:
    problem = _random_molecules(64)
    if name in ("idgnnpublished", "ngnntupublished", "reign2", "tuplereign2"):  # which take no edge features
        problem = replace(problem, edge_encoder=None, graphs=replace(problem.graphs, edge_attr=None))
    return problem


@pytest.mark.parametrize("name", FILES)
def test_golden_files_through_the_fast_path(name: str, real_data: Path) -> None:
    golden = Golden(real_data, f"golden/{name}")
    model = from_authors(golden.part("param/"), model=str(golden["model"]), policy=str(golden["policy"])).float().cuda()
    batch = golden.batch().to("cuda")
    torch.set_float32_matmul_precision("highest")
    with torch.no_grad():
        out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    expected = torch.from_numpy(golden["output"]).view(-1, 1)
    assert (out.double().cpu() - expected).abs().max() < 1e-5 * max(1.0, float(expected.abs().max()))


# sums over members make hidden numbers large, so that rounding grows from step to step unless the steps are small
RATES = {"gnnak": 2e-7, "gnnakctx": 2e-7, "idgnn": 2e-5, "ngnn": 2e-5}


@pytest.mark.parametrize("name", reign.list_models())
def test_the_first_ten_losses_are_those_of_the_plain_path(name: str) -> None:
    """With SGD: Adam divides by the size of a gradient, so that where it should be zero (a bias before a norm) its rounding decides. With
    steps so small that rounding does not grow much from one to the next: losses in float64 show by how much."""
    problem = molecules_for(name)
    # with seed 0 a hidden number of idgnnpublished is so near to 0 that rounding decides its sign, which shows as 3e-5
    seed = 1 if name == "idgnnpublished" or name in RATES else 0
    config = changed(IEEE, optimiser=OptimiserConfig(name="sgd", lr=RATES.get(name, 0.002), momentum=0.9))
    fast, plain = (curve(problem, changed(config, eager=eager), small(name), seed) for eager in (False, True))
    assert (len(fast.losses), fast.notes == []) == (10, name not in ALONG)
    assert fast.losses[-1] != pytest.approx(fast.losses[0], rel=1e-3)
    if name in RATES or name == "ppgnrrwp":  # the slope of its square roots is 1,000 near 0: 5e-4 in plain float32 on a CPU
        exact = curve(problem, changed(config, eager=True, precision="64-true"), small(name), seed).losses
        assert distance(plain.losses, exact) < (1e-4 if name in RATES else 1e-2)
        assert distance(fast.losses, exact) < (3 if name in RATES else 10) * max(distance(plain.losses, exact), 1e-6)
    else:
        assert fast.losses == pytest.approx(plain.losses, rel=1e-5)


OPTIONS: dict[str, dict[str, Any]] = {
    "clip": {"clip": 0.01},
    "sgd": {"optimiser": OptimiserConfig(name="sgd", lr=0.01, momentum=0.9)},
    "adamw": {"optimiser": OptimiserConfig(name="adamw", weight_decay=10.0)},
    "sam": {"optimiser": OptimiserConfig(sharpness="sam")},
    "asam": {"optimiser": OptimiserConfig(sharpness="asam")},
    "accumulate": {"accumulate": 2, "batch_size": 32},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_training_options(name: str) -> None:
    problem = _random_molecules(64)
    config = changed(IEEE, **OPTIONS[name])
    fast, plain = (curve(problem, changed(config, eager=eager), small("dss")) for eager in (False, True))
    assert (fast.notes == []) == (name != "accumulate")
    assert fast.losses == pytest.approx(plain.losses, rel=1e-4)
    assert fast.losses != pytest.approx(curve(problem, IEEE, small("dss")).losses, rel=1e-3)


def test_averaged_weights() -> None:
    problem, found = _random_molecules(64), []
    for eager in (False, True):
        model, notes = make_model(small("dss"), problem, 0), Curve()
        config = changed(IEEE, average=3.0, eager=eager, optimiser=OptimiserConfig(name="sgd", lr=0.002, momentum=0.9))
        fit(model, problem, config, fabric=make_fabric(config.precision, "cuda"), callback=notes)
        assert eager or notes.notes == []
        found.append({name: value.double() for name, value in model.state_dict().items()})
    for name, value in found[0].items():
        assert torch.allclose(value, found[1][name], rtol=1e-4, atol=1e-5), name


@pytest.mark.parametrize("name", reign.list_models())
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_same_seed_gives_the_same_losses(name: str, precision: str) -> None:
    problem = molecules_for(name)
    config = changed(IEEE, precision=precision, batch_size=16)
    curves = [curve(problem, config, small(name)) for _ in range(2)]
    assert [found.notes == [] for found in curves] == [name not in ALONG] * 2
    first, second = (found.losses for found in curves)
    assert first == second
    assert first[-1] < first[0]


@pytest.mark.parametrize("number", [1, 3])
def test_frames_of_several_sizes(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The model of another run of the same process, whose kernels need not be compiled, learns the same."""
    monkeypatch.setattr(captured, "FEW", 1 if number == 3 else 10**6)
    monkeypatch.setattr(captured, "_COMPILED", set())
    problem, seen, real = _random_molecules(256), list[Any](), captured.StepRunner.play

    def play(player: captured.StepRunner, played: captured.CapturedStep) -> None:
        seen.extend([played.frame] if all(played.frame is not frame for frame in seen) else [])
        real(player, played)

    monkeypatch.setattr(captured.StepRunner, "play", play)
    config = changed(IEEE, batch_size=16, epochs=3, optimiser=OptimiserConfig(name="sgd", lr=0.002, momentum=0.9))
    fast, again, plain = (curve(problem, changed(config, eager=eager), small("dss")) for eager in (False, False, True))
    assert fast.notes == again.notes == []
    assert fast.losses == again.losses
    assert fast.losses == pytest.approx(plain.losses, rel=1e-5)
    assert len(seen) >= 4 * number  # each of the two models has frames to learn and frames to predict


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_step_that_cannot_be_captured(monkeypatch: pytest.MonkeyPatch, dropout: float) -> None:
    """The epoch is repeated with plain steps, and later trainings are captured again."""
    problem, real = _random_molecules(64), CapturedEngine._learn

    def waits(resident: CapturedEngine, *args: Any) -> None:
        real(resident, *args)
        float(resident._loss)

    config = changed(IEEE, optimiser=OptimiserConfig(name="sgd", lr=0.002, momentum=0.9))
    model = small("dss", dropout=dropout)
    before = curve(problem, config, model)
    with monkeypatch.context() as patch:
        patch.setattr(CapturedEngine, "_learn", waits)
        failed = [curve(problem, config, model) for _ in range(2)]
    assert [len(found.notes) for found in failed] == [1, 1]
    assert "captur" in failed[0].notes[0]
    assert failed[0].losses == failed[1].losses
    if not dropout:
        assert failed[0].losses == pytest.approx(before.losses, rel=1e-5)
    after = curve(problem, config, model)
    assert after.notes == []
    assert after.losses == before.losses


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    """Its first steps run directly, where the whole run has replays."""
    problem, found = _random_molecules(64), []
    for parts in ((8,), (5, 8)):
        for epochs in parts:
            model = make_model(small("dss", dropout=0.2), problem, 0)
            config = changed(IEEE, epochs=epochs, report="last")
            fit(model, problem, config, folder=tmp_path / str(len(parts)), fabric=make_fabric(config.precision, "cuda"))
        found.append(model.state_dict())
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())


def test_many_models_at_once_are_those_of_one_at_a_time(tmp_path: Path) -> None:
    changes = {"data": {"options": {"num_graphs": 200}}, "model": {"hidden_channels": 16, "num_layers": 2, "dropout": 0.2}}
    recipe, _ = find_recipe("counting/dss-ego+/triangle", {**changes, "train": {"epochs": 6}, "seeds": [0, 1, 2, 3]})
    for jobs in (1, 4):
        train(recipe, tmp_path / str(jobs), jobs=jobs, fabric=make_fabric(recipe.train.precision, "cuda"))
    for seed in recipe.seeds:
        alone, together = (load_file(tmp_path / str(jobs) / f"seed-{seed}/last/model.safetensors") for jobs in (1, 4))
        assert all(torch.equal(value, together[name]) for name, value in alone.items()), seed


@pytest.mark.parametrize(
    "name", ["zinc/dss-ego", "zinc/sun-ego", "zinc/gnn-ak+", "zinc/sswl-published", "beyond/ppgn-rrwp", "beyond/cosp-long"]
)
def test_at_full_size_the_same_seed_gives_the_same_bits(name: str, tmp_path: Path, real_data: Path) -> None:
    """Two epochs alone, next to other models, continued after the first, and at the start of a longer training."""

    def run(folder: str, epochs: int, number: int = 1, **options: Any) -> list[float]:
        recipe, _ = find_recipe(name, {"train": {"epochs": epochs}, "seeds": list(range(number))})
        train(recipe, tmp_path / folder, jobs=number, fabric=make_fabric(recipe.train.precision, "cuda"), **options)
        lines = (tmp_path / folder / "seed-0/metrics.csv").read_text().splitlines()[1:]
        return [float(line.split(",")[2]) for line in lines]

    alone, three, _ = run("alone", 2), run("three", 2, 3), run("parts", 1)
    longer = StopsAfterTwo()
    with pytest.raises(KeyboardInterrupt):
        run("longer", 400, callback=longer)
    assert three == run("parts", 2, resume=True) == longer.losses == alone
    weights, *others = (load_file(tmp_path / folder / "seed-0/last/model.safetensors") for folder in ("alone", "three", "parts"))
    assert all(torch.equal(value, other[key]) for other in others for key, value in weights.items())


class StopsAfterTwo(Curve):
    """Stops after two epochs."""

    def epoch(self, row: dict[str, Any], epochs: int, improved: bool) -> None:
        super().epoch(row, epochs, improved)
        if len(self.losses) == 2:
            raise KeyboardInterrupt


def test_a_graph_of_2000_nodes_trains_in_8_gb() -> None:
    n, rng = 2000, torch.Generator().manual_seed(0)
    ends = torch.randint(0, n, (2, 2 * n), generator=rng)
    ends = ends[:, ends[0] != ends[1]]
    graph = Data(x=torch.randint(0, 21, (n, 1), generator=rng), edge_index=torch.cat([ends, ends.flip(0)], 1), y=torch.ones(1, 1))
    graph.edge_attr = torch.zeros(graph.num_edges, 1, dtype=torch.long)
    problem = Problem.of([graph, graph.clone()], name="large graphs", node_encoder=21, edge_encoder=4)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = ModelConfig(name="sun", policy="ego:2", domain="members", hidden_channels=64, num_layers=6)
    found = curve(problem, TrainingConfig(epochs=3, batch_size=1, loss="l1", metric="mae"), model)
    assert found.notes == []
    assert torch.cuda.max_memory_allocated() < 8e9, torch.cuda.max_memory_allocated()


def changed(config: TrainingConfig, **changes: Any) -> TrainingConfig:
    return config.model_copy(update=changes)
