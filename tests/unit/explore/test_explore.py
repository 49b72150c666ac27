"""The explorer: what its server refuses, and that its answers are the library's."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import reign
from reign.explore import MOST_BYTES, Answers, Explorer, _answers, read_drawn
from reign.explore._answers import models, plain
from reign.plots import draw_bag_of
from reign.theory import Pair, separate


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    server = Explorer(Answers())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def ask(
    explorer: Explorer, name: str, body: bytes | None = None, method: str = "POST", **headers: str
) -> tuple[int, dict[str, Any]]:
    """The status and the answer to a request."""
    line = http.client.HTTPConnection(
        "127.0.0.1", explorer.server_port, timeout=120
    )  # an answer takes long while coverage is measured
    try:
        line.request(method, name, body, headers)
        reply = line.getresponse()
        text = reply.read()
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert reply.headers["Cache-Control"] == "no-store"
        return reply.status, json.loads(text) if "json" in reply.headers["Content-Type"] else {"page": text.decode()}
    finally:
        line.close()


def question(explorer: Explorer, name: str, **asked: Any) -> tuple[int, dict[str, Any]]:
    return ask(explorer, f"/{explorer.token}/{name}", json.dumps(asked).encode())


def test_the_page_needs_the_token(explorer: Explorer) -> None:
    assert ask(explorer, f"/{explorer.token}/", method="GET")[0] == 200
    for path in ("/", "/explore.js", f"/{explorer.token[:-1]}/", f"/{explorer.token}x/", "/%00/", "//", f"/x/{explorer.token}/"):
        status, found = ask(explorer, path, method="GET")
        assert (status, "token" in found["error"]) == (403, True), path
    status, found = ask(explorer, "/wrong/bag", b"{}")
    assert (status, "token" in found["error"]) == (403, True)
    assert len(explorer.token) >= 32
    assert explorer.server_address[0] == "127.0.0.1"


def test_other_names_and_other_pages_are_refused(explorer: Explorer) -> None:
    path = f"/{explorer.token}/start"
    assert ask(explorer, path, b"{}", Host=f"evil.example:{explorer.server_port}")[0] == 421
    assert ask(explorer, path, b"{}", Host="127.0.0.1")[0] == 421
    assert ask(explorer, path, b"{}", Host=f"localhost:{explorer.server_port}")[0] == 200
    assert ask(explorer, path, b"{}", Origin="http://evil.example")[0] == 403
    assert ask(explorer, path, b"{}", Origin="null")[0] == 403
    assert ask(explorer, path, b"{}", Origin=f"http://127.0.0.1:{explorer.server_port}")[0] == 200


def test_a_request_of_100_megabytes_is_refused_before_it_is_read(explorer: Explorer) -> None:
    with socket.create_connection(("127.0.0.1", explorer.server_port), timeout=20) as line:
        head = f"POST /{explorer.token}/bag HTTP/1.1\r\nHost: 127.0.0.1:{explorer.server_port}\r\nContent-Length: 100000000\r\n\r\n"
        line.sendall(head.encode())
        reply = b""
        while part := line.recv(4096):  # not one byte of the body was sent
            reply += part
    assert reply.startswith(b"HTTP/1.0 413 ")
    assert b"the request has 100000000 bytes, expected at most 65,536" in reply


def test_a_client_that_sends_100_megabytes_all_the_same_reads_the_refusal(explorer: Explorer) -> None:
    try:
        status, found = ask(explorer, f"/{explorer.token}/bag", b"x" * 100_000_000)
    except (BrokenPipeError, ConnectionResetError):  # it was cut off while it sent, which is a refusal as well
        return
    assert status == 413
    assert "expected at most" in found["error"]


def test_requests_without_a_length_or_without_sense_are_refused(explorer: Explorer) -> None:
    start = f"/{explorer.token}/bag"
    assert ask(explorer, start, b"x" * (MOST_BYTES + 1))[0] == 413
    for body, message in (
        (b"{", "is not JSON"),
        (b"[1]", "expected an object"),
        (b"[" * 50_000, "is not JSON"),
        (b"\xff", "is not JSON"),
    ):
        status, found = ask(explorer, start, body)
        assert (status, message in found["error"]) == (400, True), body[:10]
    with socket.create_connection(("127.0.0.1", explorer.server_port), timeout=20) as line:
        line.sendall(
            f"POST {start} HTTP/1.1\r\nHost: 127.0.0.1:{explorer.server_port}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        assert line.recv(4096).startswith(b"HTTP/1.0 411 ")
    assert ask(explorer, f"/{explorer.token}/nothing", b"{}")[0] == 404
    assert ask(explorer, f"/{explorer.token}/../../etc/passwd", method="GET")[0] == 404


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"graph": "no molecule", "policy": "nm"}, "expected SMILES, edges such as 0-1,1-2, or a name"),
        ({"graph": "", "policy": "nm"}, "no graph was given"),
        ({"graph": 3, "policy": "nm"}, "no graph was given"),
        ({"graph": "0-1,1-1", "policy": "nm"}, "1-1 is a loop"),
        ({"graph": "0-999", "policy": "nm"}, "expected at most 59"),
        ({"graph": "complete:400", "policy": "nm"}, "400 nodes, expected at most 60"),
        ({"graph": "C" * 61, "policy": "nm"}, "61 nodes, expected at most 60"),
        ({"graph": "C" * 5000, "policy": "nm"}, "5,000 characters"),
        ({"graph": "cycle:5", "policy": "eggo"}, "unknown policy 'eggo'"),
        ({"graph": "cycle:5"}, "policy is missing"),
        ({"graph": "complete:60", "policy": "2-nm"}, "have up to 12,744,000 edges, expected at most 500,000"),
        ({"graph": "complete:60", "policy": "3-set-nd"}, "the 34,220 subgraphs of policy 3-set-nd have up to 121,138,800 edges"),
        ({"graph": "complete:60", "policy": "ed"}, "use a smaller graph"),
        ({"graph": "cycle:5", "policy": "nm", "subgraph": 5}, "expected 0 to 4, or -1 for all"),
        ({"graph": "cycle:5", "policy": "nm", "subgraph": -2}, "expected 0 to 4, or -1 for all"),
        ({"graph": "cycle:5", "policy": "nm", "subgraph": "x"}, "expected a whole number"),
        ({"graph": "/etc/passwd", "policy": "nm"}, "expected SMILES"),
        ({"graph": "zinc", "policy": "nm"}, "expected SMILES"),
    ],
)  # fmt: skip
def test_bad_graphs_get_a_clear_refusal(explorer: Explorer, asked: dict[str, Any], message: str) -> None:
    status, found = question(explorer, "bag", **asked)
    assert status == 400
    assert message in found["error"]


def test_bags_are_those_of_the_library(explorer: Explorer) -> None:
    for text, policy, k in (
        ("0-1,1-2,2-3,3-0,4", "ego+:1", 2),
        ("c1ccccc1CO", "nd", 3),
        ("cycle:5", "ed", 4),
        ("house", "2-nm", 7),
        ("house", "3-set-nd", 9),
    ):
        status, found = question(explorer, "bag", graph=text, policy=policy, subgraph=k)
        assert status == 200, found
        bag = reign.policy(policy).from_data(read_drawn(text).data)
        assert (found["subgraphs"], found["pairs"], found["members"]) == (len(bag), bag.num_pairs, int(bag.member.sum()))
        one = bag.subgraph(k)
        assert found["inside"] == one.member.nonzero().view(-1).tolist()
        assert found["root"] == one.root.view(-1).tolist()
        assert found["picture"].count("<svg") == 1
    assert read_drawn("0-1,1-2,2-3,3-0,4").data.num_nodes == 5


def test_the_page_opens_with_a_graph_whose_whole_bag_is_drawn(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    status, start = question(explorer, "start")
    assert (status, read_drawn(start["graph"]).molecule is not None) == (200, True)
    status, found = question(explorer, "bag", graph=start["graph"], policy="ego+:2", subgraph=-1)
    assert (status, found["subgraphs"], found["drawn"], found["inside"]) == (200, 13, 13, [])
    assert found["picture"] == draw_bag_of(read_drawn(start["graph"]), "ego+:2").svg
    _, dense = question(explorer, "bag", graph="complete:60", policy="nm", subgraph=-1)  # the page would wait long for all of it
    assert dense["drawn"] * 60 * 59 <= 20_000
    monkeypatch.setattr(_answers, "find_spec", lambda name: None)  # as if RDKit were missing
    assert read_drawn(question(explorer, "start")[1]["graph"]).molecule is None


@pytest.mark.usefixtures("signatures_unchecked")
def test_verdicts_are_those_of_the_library(explorer: Explorer) -> None:
    one, other = "0-1,1-2,2-3,3-4,4-5,5-0", "0-1,1-2,2-0,3-4,4-5,5-3"
    status, found = question(explorer, "compare", one=one, other=other, policy="nm")
    assert status == 200, found
    pair = Pair("p", read_drawn(one).data, read_drawn(other).data)
    expected = {v.method: v.separated for v in separate([pair], models("nm"), [1, 3, 4], act=None)}
    assert {row["method"]: row["separated"] for row in found["rows"]} == expected
    assert (expected["1-WL"], expected["3-WL"], expected["mpnn"], expected["sun:nm"]) == (False, True, False, True)
    status, found = question(explorer, "compare", one="complete:40", other="cycle:5", policy="nm")
    assert (status, "expected at most" in found["error"]) == (400, True)


@pytest.mark.usefixtures("signatures_unchecked")
def test_models_that_cannot_take_a_policy_say_so_and_others_go_on(explorer: Explorer) -> None:
    status, found = question(explorer, "compare", one="cycle:5", other="path:5", policy="ed")
    said = {row["method"]: row for row in found["rows"]}
    assert status == 200
    assert said["sun:ed"]["separated"] is None
    assert "node-based" in said["sun:ed"]["text"]
    assert said["ds:ed"]["separated"] is True


def test_atoms_are_features_and_all_other_nodes_are_alike() -> None:
    assert plain(read_drawn("CO")).x[0] != plain(read_drawn("CO")).x[1]
    assert torch.equal(plain(read_drawn("0-1")).x, torch.ones(2, 1))


def test_there_is_no_prediction_without_a_run(explorer: Explorer) -> None:
    status, found = question(explorer, "predict", smiles="CCO")
    assert (status, "was started without a run" in found["error"]) == (400, True)
    assert question(explorer, "start")[1]["run"] is None
