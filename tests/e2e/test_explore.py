"""``reign explore`` as a user has it: the command, and the page in a browser, its controls pressed and its answers compared."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import reign
from commands import fails, works
from devtools import Browser
from reign.explore import Answers, Explorer, read_drawn
from reign.explore._answers import models
from reign.theory import Pair, separate

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of two models."""
    folder = tmp_path_factory.mktemp("explore")
    smiles = ["C" * n + end for end in ("", "O", "N") for n in range(1, 9)]
    pd.DataFrame({"smiles": smiles, "size": [float(len(text)) for text in smiles]}).to_csv(folder / "mols.csv", index=False)
    small = [
        "--set",
        "model.hidden_channels=8",
        "--set",
        "model.num_layers=1",
        "--epochs",
        "1",
        "-b",
        "16",
        "-q",
        "--ensemble-size",
        "2",
    ]
    works("train", "-i", folder / "mols.csv", "--target-columns", "size", "-o", folder / "run", *small)
    return folder / "run"


@pytest.fixture
def served(run: Path) -> Iterator[Explorer]:
    server = Explorer(Answers(run))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_the_page_in_a_browser(served: Explorer, run: Path, tmp_path: Path, signatures_unchecked: None) -> None:
    with Browser(tmp_path) as page:
        page.open(served.address)
        page.until("document.body?.dataset.ready === 'yes'")
        text = lambda name: page.run(f"document.getElementById('{name}').textContent")  # noqa: E731

        # it opens with a picture: a molecule and its bag
        assert (
            page.run("document.getElementById('picture').decode().then(() => document.getElementById('picture').naturalWidth)")
            > 500
        )
        assert text("step") == "all 13 subgraphs"
        assert "13 nodes, 13 edges; policy ego+:2: 13 subgraphs" in text("sizes")

        # a drawing: a triangle with a tail, and a node alone
        for x, y in ((50, 50), (100, 50), (75, 100), (150, 50), (200, 150)):
            page.run(
                "{const paper = document.getElementById('paper'), box = paper.getBoundingClientRect();"
                f"paper.dispatchEvent(new MouseEvent('click', {{clientX: box.left + {x}, clientY: box.top + {y}, bubbles: true}}))}}"
            )
        for a, b in ((0, 1), (1, 2), (0, 2), (1, 3), (3, 4), (3, 4)):  # an edge that is drawn twice is gone
            for node in (a, b):
                page.run(
                    f"document.querySelector('circle[data-node=\"{node}\"]').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
                )
        page.run("document.getElementById('use').click()")
        assert page.run("document.getElementById('graph').value") == "0-1,1-2,0-2,1-3,4"

        # its bag, step by step
        page.run("document.getElementById('policy').value = 'ego+:1'; document.getElementById('show').click()")
        page.until("document.getElementById('step').textContent === 'all 5 subgraphs'")
        page.run("document.getElementById('next').click()")
        bag = reign.policy("ego+:1").from_data(read_drawn("0-1,1-2,0-2,1-3,4").data)
        for k in range(5):
            page.until(f"document.getElementById('step').textContent === 'subgraph {k} of 0 to 4'")
            members = ", ".join(map(str, bag.subgraph(k).member.nonzero().view(-1).tolist()))
            assert f"root {k}; members {members};" in text("inside")
            assert (
                page.run("document.getElementById('picture').decode().then(() => document.getElementById('picture').naturalWidth)")
                > 100
            )
            page.run("document.getElementById('next').click()")
        assert page.run("document.getElementById('next').disabled")
        assert f"5 subgraphs, {bag.num_pairs} pairs, {int(bag.member.sum())} of them members" in text("sizes")

        # a graph that cannot be read
        page.run("document.getElementById('graph').value = 'no graph'; document.getElementById('show').click()")
        page.until("document.getElementById('bag-error').textContent !== ''")
        assert "expected SMILES" in text("bag-error")

        # two graphs
        page.run("document.getElementById('go').click()")
        page.until("document.getElementById('verdicts').rows.length > 1")
        rows = page.run(
            "[...document.getElementById('verdicts').tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent))"
        )
        sides = [page.run(f"document.getElementById('{side}').value") for side in ("one", "other")]
        pair = Pair("p", *(read_drawn(side).data for side in sides))
        expected = {
            v.method: [v.method, "yes" if v.separated else "no", str(v)]
            for v in separate([pair], models("nm"), [1, 3, 4], act=None)
        }
        assert {row[0]: row for row in rows} == expected

        # the run
        page.run("document.getElementById('smiles').value = 'CCO'; document.getElementById('predict').click()")
        page.until("document.getElementById('prediction').textContent !== ''")
        table = reign.load(run).predict(["CCO"])
        shown = re.match(r"size: (\S+) ± (\S+);", text("prediction"))
        assert shown is not None
        assert [float(word) for word in shown.groups()] == pytest.approx([table["size_pred"][0], table["size_unc"][0]], rel=1e-3)
        assert page.run("document.getElementById('atoms').tBodies[0].rows.length") == 3

        # the one refusal that was provoked is the only complaint, and nothing came from outside
        assert [line for line in page.complaints if "400 (Bad Request)" not in line] == []
        assert len(page.complaints) == 1
        assert {address.split("/")[2] for address in page.requests if not address.startswith("data:")} == {
            f"127.0.0.1:{served.server_port}"
        }


def test_the_command_prints_the_address_and_ends(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it, and so would the command
    with subprocess.Popen(
        [sys.executable, "-m", "reign", "explore", "--no-open"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        signal.signal(signal.SIGINT, before)
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert re.fullmatch(r"The explorer is at http://127\.0\.0\.1:\d+/[\w-]{32}/\n", line), line
    assert (process.returncode, err) == (0, "")
    assert "The explorer was stopped." in out


def test_mistakes(tmp_path: Path) -> None:
    for args, message in (
        (["explore", str(tmp_path / "none"), "--no-open"], "none"),
        (["explore", "--port", "70000", "--no-open"], "--port is 70000, expected 0 to 65535"),
    ):
        assert message in fails(*args)
