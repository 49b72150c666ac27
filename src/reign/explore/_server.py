"""The server of the page. It uses the standard library, is bound to this machine, and requires the token in its address.

Each request is checked in this order: the name of the host, so that no other site can reach the server under its own name; the
token; the origin of the page that sends the request; and the size of its body, which is not read if it is too large. Requests are answered one at a time.
"""

import hmac
import json
import secrets
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from reign.disk import first_line
from reign.explore._answers import Answers, Values

MOST_BYTES = 64 * 1024  # largest size of a request
PAGE = {
    "": ("index.html", "text/html"),
    "explore.js": ("explore.js", "text/javascript"),
    "explore.css": ("explore.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refusal(Exception):
    """A refused request, with the status and the reason to send."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Explorer(ThreadingHTTPServer):
    """The server. ``serve_forever`` runs it.

    Args:
        answers: the answers to requests.
        port: the port; 0 for any free port.
    """

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, answers: Answers, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answers, self.token, self.turn = answers, secrets.token_urlsafe(24), threading.Lock()

    @property
    def address(self) -> str:
        """The address of the page, including the token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Explorer
    server_version, sys_version = "reign", ""
    timeout = 20  # seconds after which an idle connection is closed

    def do_GET(self) -> None:
        """Send a file of the page."""
        self._guarded(self._page)

    def do_POST(self) -> None:
        """Answer a request."""
        self._guarded(self._answer)

    def _guarded(self, respond: Any) -> None:
        try:
            name = self._admitted()
            respond(name)
        except Refusal as refusal:
            self._send(refusal.status, "application/json", json.dumps({"error": str(refusal)}).encode())
            self._drain()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _admitted(self) -> str:
        """The path of the request, after the checks."""
        port = self.server.server_port
        hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        if self.headers.get("Host", "") not in hosts:
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "this server can be reached only as 127.0.0.1 or localhost.")
        token, _, name = self.path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(errors="replace"), self.server.token.encode()):
            raise Refusal(HTTPStatus.FORBIDDEN, "the address has no valid token; use the address that reign explore printed.")
        if self.headers.get("Origin", "") not in {"", *(f"http://{host}" for host in hosts)}:
            raise Refusal(HTTPStatus.FORBIDDEN, "the request comes from another page.")
        return name.partition("?")[0]

    def _page(self, name: str) -> None:
        if name not in PAGE:
            raise Refusal(HTTPStatus.NOT_FOUND, "there is no such page.")
        file, kind = PAGE[name]
        self._send(HTTPStatus.OK, f"{kind}; charset=utf-8", (resources.files("reign.explore") / "page" / file).read_bytes())

    def _answer(self, name: str) -> None:
        answer = self.server.answers.known.get(name)
        if answer is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "there is no such request.")
        asked = self._body()
        try:
            with self.server.turn:
                found = answer(asked)
            text = json.dumps(found, allow_nan=False)
        except ValueError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
        except ModuleNotFoundError as missing:
            raise Refusal(
                HTTPStatus.BAD_REQUEST, f"{missing.name} is not installed; pip install 'reign[train,chem,plot]'."
            ) from None
        except (RuntimeError, MemoryError, ArithmeticError, LookupError, TypeError) as error:  # the page goes on
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"this could not be computed ({first_line(error)}).") from None
        self._send(HTTPStatus.OK, "application/json", text.encode())

    def _body(self) -> Values:
        """The request. Its size is checked before it is read."""
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal():
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the request does not give its length.")
        if len(size) > 12 or int(size) > MOST_BYTES:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request has {size[:12]} bytes, expected at most {MOST_BYTES:,}."
            )
        try:
            asked = json.loads(self.rfile.read(int(size)))
        except (ValueError, RecursionError):
            raise Refusal(HTTPStatus.BAD_REQUEST, "the request is not JSON.") from None
        if not isinstance(asked, dict):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the request is {type(asked).__name__}, expected an object.")
        return asked

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close", **HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def _drain(self) -> None:
        """Discard the rest of the request, for at most two seconds, because the client would not see the reason if the connection were closed
        at once."""
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(0.5)
            end = time.monotonic() + 2
            while time.monotonic() < end and self.connection.recv(MOST_BYTES):
                pass
        except OSError:
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""
