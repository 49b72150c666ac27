"""Apply every mutant to a copy of the tree, and show that the tests it names fail: ``python tests/mutants/run.py [words ...]``.

First the named tests run on the copy as it is, and must pass. Words choose mutants by their file or description; all are tried if
none are given. It ends with 1 if a mutant no longer applies, if no test notices it, or if it breaks more than the test (as a module that
cannot be imported does), and with the time it took.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from mutants import ROOT, Mutant, is_test, read_mutants

TREE = ("src", "tests", "conftest.py", "pyproject.toml")  # what tests need
LIMIT, ALL = 300, 3600  # seconds that the tests of one mutant may take, and all named tests together
NO_DATA = "was not tried: its tests need real data (REIGN_DATA)"
HEAVY = "torch torch_geometric.nn lightning.fabric pandas rdkit.Chem sklearn.metrics networkx pydantic typer rich"


class Outcomes:
    """A pytest plugin that keeps which tests failed, which were skipped, and what could not even be run."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.skipped: list[str] = []
        self.broken: list[str] = []

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(report.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)
        elif report.failed:
            (self.failed if report.when == "call" else self.broken).append(report.nodeid)


def run_tests(root: Path, tests: Sequence[str], stop: bool, send: Connection) -> None:
    """Run some tests of a tree in this process, a child that has imported nothing of reign, and send what came out."""
    with open(os.devnull, "w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    os.setsid()
    os.chdir(root)
    sys.path.insert(0, str(root / "src"))
    import pytest

    outcomes = Outcomes()
    options = ["-q", "-p", "no:cacheprovider", "-m", "", f"--rootdir={root}", *(["-x"] if stop else [])]
    code = pytest.main([*options, *tests], plugins=[outcomes])
    send.send((outcomes.failed, outcomes.skipped, outcomes.broken or ([] if code in (0, 1) else [f"pytest ended with {code}"])))


def in_a_child(root: Path, tests: Sequence[str], stop: bool, limit: float = LIMIT) -> tuple[list[str], list[str], list[str]]:
    """Tests that failed, tests that were skipped, and what could not be run; in a fork, so that large packages are imported once."""
    receive, send = get_context("fork").Pipe(duplex=False)
    child = get_context("fork").Process(target=run_tests, args=(root, tests, stop, send))
    child.start()
    send.close()
    found: tuple[list[str], list[str], list[str]] = ([], [], [f"the tests took more than {limit} s, or their process died"])
    with suppress(EOFError):
        if receive.poll(limit):
            found = receive.recv()
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # the child is the leader of its group
    child.join()
    return found


def try_mutant(mutant: Mutant, root: Path, number: int) -> str | None:
    """None if the named tests fail with the change and nothing else does; otherwise what is wrong."""
    try:
        text = mutant.apply(root)
    except (ValueError, OSError) as error:
        return f"does not apply. {error}"
    if text.count(mutant.new) < 1 or mutant.new == mutant.old:
        return "changes nothing"
    file = root / "src" / "reign" / mutant.file
    before, times = file.read_text(), file.stat()
    try:
        file.write_text(text)
        os.utime(file, (times.st_atime, times.st_mtime + 1000 + number))  # so that no compiled file of another version is used
        failed, skipped, broken = in_a_child(root, mutant.fails, stop=len(mutant.fails) == 1)
    finally:
        file.write_text(before)
        os.utime(file, (times.st_atime, times.st_mtime))
    if broken:
        return f"broke more than the test: {broken[0]}"
    left = [test for test in mutant.fails if not any(is_case(name, test) for name in failed)]
    if left and all(any(is_case(name, test) for name in skipped) for test in left):
        return NO_DATA if not failed else None
    return f"was not noticed by {left[0]}" if left else None


def is_case(name: str, test: str) -> bool:
    """Whether a test that ran is the named one, or one of its cases."""
    return name == test or name.startswith(f"{test}[")


def worker(part: list[Mutant], tests: list[str], send: Connection) -> None:
    """Try some mutants, one after another, in a copy of the tree of its own."""
    for name in HEAVY.split():
        __import__(name)
    with tempfile.TemporaryDirectory(prefix="reign-mutants-") as folder:
        root = Path(folder)
        for name in TREE:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(source, root / name)
        os.environ |= {"PYTHONPATH": str(root / "src"), "REIGN_MUTANT": "1"}
        failed, _, broken = in_a_child(root, tests, stop=False, limit=ALL) if tests else ([], [], [])
        send.send(("baseline", None, [*failed, *broken]))
        if failed or broken:
            return
        for number, mutant in enumerate(part):
            start = time.monotonic()
            problem = try_mutant(mutant, root, number)
            send.send((mutant, problem, time.monotonic() - start))


def in_parallel(chosen: list[Mutant], tests: list[str], jobs: int, tell: Callable[[Any, Any, Any], None]) -> None:
    """Deal the mutants to some processes, and tell what each of them reports."""
    context = get_context("fork")
    workers = []
    for j in range(jobs):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=worker, args=(chosen[j::jobs], tests[j::jobs], send))
        process.start()
        send.close()
        workers.append((process, receive))
    open_ = {receive: process for process, receive in workers}
    from multiprocessing.connection import wait

    while open_:
        for receive in wait(list(open_)):
            assert isinstance(receive, Connection)
            try:
                tell(*receive.recv())
            except EOFError:
                open_.pop(receive).join()


def main() -> int:
    parser = argparse.ArgumentParser(description="Try the mutants: every one must be noticed by the tests that it names.")
    parser.add_argument("words", nargs="*", help="only mutants with one of these words in their group, file or description")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="number of processes (2)")
    parser.add_argument("--skip-baseline", action="store_true", help="do not first run the named tests without any change")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every mutant and its time")
    given = parser.parse_args()
    start, everything = time.monotonic(), read_mutants()
    chosen = [m for m in everything if not given.words or any(w in f"{m.group} {m.file} {m.what}" for w in given.words)]
    problems = [f"{m.group}: {m.what}: there is no test {test}" for m in chosen for test in m.fails if not is_test(test)]
    tried = untried = 0

    def tell(mutant: Any, problem: Any, seconds: Any) -> None:
        nonlocal tried, untried
        if mutant == "baseline":
            problems.extend(f"fails without any change: {test}" for test in seconds)
            return
        tried, untried = tried + (problem != NO_DATA), untried + (problem == NO_DATA)
        if problem not in (None, NO_DATA):
            problems.append(f"{mutant.group}: {mutant.what}: {problem}")
        if problem is not None or given.verbose:
            print(f"{mutant.group:12} {seconds:5.1f} s  {mutant.what}: {problem or 'noticed'}", flush=True)  # noqa: T201

    if not problems:
        tests = [] if given.skip_baseline else sorted({test for mutant in chosen for test in mutant.fails})
        in_parallel(chosen, tests, min(given.jobs, max(len(chosen), 1)), tell)
    for problem in problems:
        print(problem, flush=True)  # noqa: T201
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    good = not problems and tried + untried == len(chosen)
    ending = "all of them were noticed" if good else f"{len(problems)} problems"
    print(f"{tried} of {len(chosen)} mutants tried, {ending}; it took {minutes} min {seconds} s.", flush=True)  # noqa: T201
    return 0 if good and chosen else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
