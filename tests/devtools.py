"""A browser that tests can press the buttons of: headless Chromium, told what to do through two pipes."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from pictures import FLAGS


class Browser:
    """One page in Chromium; a skip where there is no Chromium.

    Args:
        folder: where the browser keeps its profile.

    Attributes:
        complaints: errors and warnings that pages wrote to the console, and exceptions.
        requests: the addresses that pages asked for.
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("chromium")
        if program is None:
            pytest.skip("chromium is not on the PATH")
        ours_read, theirs_write = os.pipe()
        theirs_read, ours_write = os.pipe()
        start = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
        command = [program, *FLAGS, f"--user-data-dir={folder}/profile", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", start, str(theirs_read), str(theirs_write), *command],
            pass_fds=(theirs_read, theirs_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_read)
        os.close(theirs_write)
        self.read, self.write = os.fdopen(ours_read, "rb", buffering=0), os.fdopen(ours_write, "wb", buffering=0)
        self.rest, self.number, self.session = b"", 0, None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Runtime", "Log", "Network", "Page"):
            self.tell(f"{part}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.read.close()
        self.write.close()
        self.process.terminate()
        self.process.wait(20)

    def tell(self, method: str, **params: Any) -> dict[str, Any]:
        """Tell the browser something, and wait for what it says."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params} | ({"sessionId": self.session} if self.session else {})
        self.write.write(json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 120
        while time.monotonic() < end:
            while b"\0" not in self.rest:
                got = self.read.read(1 << 16)
                assert got, "the browser has gone"
                self.rest += got
            text, _, self.rest = self.rest.partition(b"\0")
            heard = json.loads(text)
            self._note(heard)
            if heard.get("id") == self.number:
                assert "error" not in heard, heard
                return dict(heard["result"])
        raise AssertionError(f"no answer to {method}")

    def _note(self, heard: dict[str, Any]) -> None:
        params = heard.get("params", {})
        if heard.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif heard.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif heard.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str(params["args"]))
        elif heard.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def open(self, address: str) -> None:
        """Go to a page."""
        self.tell("Page.navigate", url=address)

    def look(self, width: int, height: int, dark: bool) -> None:
        """The size of the window, which is a phone's if it is narrow, and what the reader prefers."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def shoot(self, file: Path, most: int = 4000) -> None:
        """Write a picture of the page, from its top to its end or the given height."""
        width, height = self.run("[innerWidth, Math.ceil(document.documentElement.scrollHeight)]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, most), "scale": 1}
        made = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(made["data"]))

    def run(self, script: str) -> Any:
        """The value of an expression on the page; one that is a promise is waited for."""
        done = self.tell("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + 60
        while not self.run(script):
            assert time.monotonic() < end, script
            time.sleep(0.05)
