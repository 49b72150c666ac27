"""An attack from seeds: bad tables, recipes, folders and calls. Exit 0 or 2, no traceback, every row back in order, nothing executed.
Input that could give wrong numbers without an error is in ``silent.py``.

The default suite runs 600 cases; ``REIGN_ATTACK`` is another number (``make attack`` runs 50,000), and ``REIGN_ATTACK_SEED`` another
seed. A case that fails is named, and ``case("tables", seed, ...)`` makes it again.
"""

import os
import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cases
import pytest
import silent
import torch

import reign
from commands import reign as command
from reign.nn import DS, SUN
from reign.train import Predictor
from reign.train.runs.jobs import Member, train_member

CASES = int(os.environ.get("REIGN_ATTACK", "600"))
SEED = int(os.environ.get("REIGN_ATTACK_SEED", "0"))
CHUNKS = 4 if CASES <= 1000 else 50
SHARES = {"tables": 0.25, "recipes": 0.12, "folders": 0.08, "calls": 0.33}
SHARES |= {"caches": 0.02, "dialects": 0.08, "labels": 0.03, "spellings": 0.03, "beyond": 0.02, "options": 0.02}
SHARES |= {"separations": 0.01, "pickles": 0.01}


def check(done: Any) -> None:
    """A command that ended as commands should."""
    if done.exit_code not in (0, 2) or "Traceback" in done.output or not isinstance(done.exception, SystemExit | None):
        raise AssertionError(f"exit {done.exit_code}: {done.output[-300:]}") from done.exception


def tables(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """Predict for a table; one in ten through the command line."""
    import pandas as pd

    file = place / rng.choice(["in.csv", "in.csv", "in.csv", "[in].csv", "in.csv.gz"])
    known = cases.table(rng, file)
    if rng.random() < 0.1:
        done = command("predict", "-i", file, "--model-paths", trained / "run", "-o", place / "out.csv", "-q")
        check(done)
        out = pd.read_csv(place / "out.csv", keep_default_na=False, dtype=str, na_filter=False) if done.exit_code == 0 else None
        if out is not None and known and any("\r" in text or "\0" in text for text in known):
            return  # pandas itself reads these in another way
    else:
        try:
            out = predictor.predict_file(file)
        except ValueError:
            out = None
    if known is None:
        return
    if out is None:
        raise AssertionError(f"a good table was refused: {file.read_bytes()!r}")
    assert out["smiles"].tolist() == known
    filled = out["size_pred"].notna() & (out["size_pred"].astype(str) != "")
    assert [bool(error) for error in out["error"]] == [not good for good in filled]


def recipes(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """Train by a recipe, most up to the first epoch, and some to the end."""
    (place / "r.yaml").write_bytes(cases.settings(rng, trained / "mols.csv", place / "canary"))
    if rng.random() < 0.3:
        field, value = rng.choice(cases.FIELDS), rng.choice([*map(str, cases.VALUES), cases.word(rng)])
        args: list[Any] = ["-i", trained / "mols.csv", "--target-columns", "size", "--set", f"{field}={value}"]
    else:
        args = [place / "r.yaml"]
    with pytest.MonkeyPatch.context() as patch:
        if rng.random() < 0.95:
            patch.setattr("reign.train.runs.jobs.train_member", stop)
        else:
            patch.setattr(
                "reign.train.runs.jobs.train_member",
                lambda recipe, *rest: (stop if recipe.train.epochs > 3 else train)(recipe, *rest),
            )
        done = command("train", *args, "-o", place / "run", "-q", "--accelerator", "cpu")
    check(done)
    if done.exit_code == 2 and not (place / "run" / "recipe.yaml").exists():
        assert not (place / "run").exists()


def folders(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """Use a run in which one file is wrong."""
    file, how = cases.harmed(rng, trained / "run", place / "run", place / "canary")
    use = rng.choice(
        [
            ["evaluate", place / "run", "-q"],
            ["train", "--resume", place / "run", "-q"],
            ["predict", "-i", trained / "mols.csv", "--model-paths", place / "run", "-o", place / "out.csv", "-q"],
        ]
    )
    try:
        check(command(*use))
    except AssertionError as error:
        raise AssertionError(f"{use[0]} with {file} {how}: {error}") from error.__cause__


def calls(rng: random.Random, trained: Path, place: Path, predictor: Predictor) -> None:
    """Call models and policies with what may not be tensors; a ValueError, or an answer."""
    args = [cases.tensor(rng) for _ in range(rng.randint(2, 4))]
    if rng.random() < 0.5:
        args[0], args[1] = torch.ones(4, 3), torch.tensor([[0, 1, 2], [1, 0, 3]])
        args[rng.randrange(len(args))] = cases.tensor(rng)
    kind = rng.randrange(3)
    try:
        if kind == 0:
            MODELS[rng.randrange(2)](*args)
        elif kind == 1:
            name = rng.choice(
                [*reign.list_policies(), cases.word(rng), "ego:0", "nm@0", "nm@-1", "2-2-nm", "ego:99999999999999999999"]
            )
            reign.policy(name)(*args)
        else:
            options = {rng.choice(["policy", "act", "norm", "conv", "jk", "dropout", "nothing"]): cases.any_value(rng)}
            reign.build_model(
                rng.choice(reign.list_models()), *(rng.choice([1, 2, 3, 0, -1, None, "x", 2.5]) for _ in range(4)), **options
            )
    except ValueError:
        pass


MODELS = [SUN(3, 4, 1, 1).eval(), DS(3, 4, 1, 1, policy="nm").eval()]
KINDS: dict[str, Callable[[random.Random, Path, Path, Predictor], None]] = {
    "tables": tables,
    "recipes": recipes,
    "folders": folders,
    "calls": calls,
    "caches": silent.caches,
    "dialects": silent.dialects,
    "labels": silent.labels,
    "spellings": silent.spellings,
    "beyond": silent.beyond,
    "options": silent.options,
    "separations": silent.separations,
    "pickles": silent.pickles,
}


@pytest.fixture(scope="module")
def predictor(trained: Path) -> Predictor:
    return reign.load(trained / "run")


train = train_member


def stop(recipe: Any, member: Member, *args: Any) -> None:
    raise ValueError("far enough")


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("kind", KINDS)
def test_attack(
    kind: str, chunk: int, trained: Path, predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = round(CASES * SHARES[kind] / CHUNKS)
    failed = []
    for n in range(number):
        seed = SEED * 10**9 + chunk * 10**6 + n
        place = tmp_path / str(n)
        place.mkdir()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what torch says of odd tensors is not what this is about
                KINDS[kind](random.Random(seed), trained, place, predictor)
        except Exception as error:
            if not type(error).__name__.startswith("TypeCheck"):  # the checks of signatures in tests came first
                cause = error.__cause__ or error
                failed.append(
                    f"seed {seed}: {error!r:.300}\n    {' | '.join(traceback.format_tb(cause.__traceback__)[-1].split())}"
                )
        if list(tmp_path.rglob("canary")):
            failed.append(f"seed {seed}: code was executed")
            break
        for file in sorted(place.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
        place.rmdir()
    assert not failed, f"{len(failed)} of {number} {kind}:\n" + "\n".join(failed[:20])
