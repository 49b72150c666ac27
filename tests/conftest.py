"""Shapes and types in the signatures of reign are checked while its tests run, and what they draw comes from one seed.

In every file of tests, the first calls of each function are checked: checking all of them takes as long as the tests themselves.

``REIGN_SEED`` is that seed, 0 if it is not set: the examples that hypothesis draws, and what every test finds in the global generators.
"""

import functools
import gc
import inspect
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import Phase, core, settings
from jaxtyping import install_import_hook

# all modules, private ones too, but for the command line, whose signatures are typer's, and for kernels, which Triton reads as text
SOURCE = Path(__file__).parents[1] / "src" / "reign"
PARTS = [p.stem for p in SOURCE.iterdir() if not p.stem.startswith("__") and p.stem not in ("cli", "kernels")]
PARTS += [f"kernels.{p.stem}" for p in (SOURCE / "kernels").iterdir() if not p.stem.startswith("__") and p.stem != "fused"]
MUTANT = "REIGN_MUTANT" in os.environ  # a mutant is tried: that a test fails is enough, and that it fails soon
COVERAGE = "COVERAGE_RUN" in os.environ  # set by `coverage run`: lines are counted, which takes far less time without the checks
CHECKED_CALLS = 3  # of each function in each file of tests
_calls: Counter[CodeType] = Counter()
_check_all = jaxtyping.jaxtyped


def _check_first(*, typechecker: Any) -> Callable[[Any], Any]:
    """In place of ``jaxtyping.jaxtyped``: check the first calls of a function in each file of tests."""

    def decorate(thing: Any) -> Any:
        if not inspect.isfunction(thing):  # a dataclass, whose constructor is checked
            return _check_all(thing, typechecker=typechecker)
        code = thing.__code__  # the same for a function inside a function, which is made again and again, and counts as one
        checked = None

        @functools.wraps(thing)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal checked
            if jaxtyping.config.jaxtyping_disable or _calls[code] >= CHECKED_CALLS:
                return thing(*args, **kwargs)
            _calls[code] += 1
            checked = checked or _check_all(thing, typechecker=typechecker)
            return checked(*args, **kwargs)

        return call

    return decorate


if "REIGN_ATTACK" not in os.environ and not MUTANT and not COVERAGE:  # the large attack is to meet reign as users do
    jaxtyping.jaxtyped = _check_first
    install_import_hook([f"reign.{part}" for part in PARTS], "beartype.beartype")
os.environ.setdefault(
    "REIGN_REPORT", "0"
)  # a report after each of the many trainings would take long; those that test it ask for it
torch.set_num_threads(1)  # the tests run in several processes
os.fsync = os.fstat  # nobody pulls the plug: files are not forced to the disk, but have to be open
settings.register_profile("reign", deadline=None, print_blob=True, **({"phases": [Phase.generate]} if MUTANT else {}))
settings.load_profile("reign")
SEED = int(os.environ.get("REIGN_SEED", "0"))
gc.disable()  # until all tests are collected


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-seed") is None:
        core.global_force_seed = SEED


def pytest_collection_finish() -> None:
    """What tests consist of is no garbage, so none was looked for until here."""
    gc.enable()


def pytest_report_header() -> str:
    return f"REIGN_SEED={SEED}"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test starts from the same state of the global generators, whatever ran before it in its process."""
    random.seed(SEED)
    np.random.seed(SEED % 2**32)  # noqa: NPY002
    torch.manual_seed(SEED)


@pytest.fixture(autouse=True, scope="module")
def _checked_anew() -> None:
    _calls.clear()


@pytest.fixture
def signatures_unchecked() -> Iterator[None]:
    """Without the checks of signatures, which take most of the time of small trainings: for tests that go once more through what other
    tests go through with them.
    """
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data, or a skip."""
    folder = os.environ.get("REIGN_DATA")
    if not folder:
        pytest.skip("REIGN_DATA is not set: no real data on this machine")
    return Path(folder)
