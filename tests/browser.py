"""Chromium, driven through chromedriver over its own protocol, of which these tests need a page's worth.

selenium would bring eight packages, and a manager that downloads browsers where tests must not use a network.
"""

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
LACKING = [name for name, found in (("Chromium", CHROMIUM), ("chromedriver", DRIVER)) if not found]
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
]
KEYS = {"Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015", "Enter": "\ue007", "Escape": "\ue00c"}
KEYS |= {"Tab": "\ue004"}


class Browser:
    """One window."""

    def __init__(self, session: str, downloads: Path) -> None:
        self._session, self.downloads = session, downloads

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        return ask(method, f"{self._session}/{path}", body)

    def open(self, page: Path) -> None:
        """Open a file from disk; what was said before is forgotten."""
        self._ask("POST", "url", url="about:blank")
        for kind in ("browser", "performance"):
            self._ask("POST", "se/log", type=kind)
        self._ask("POST", "url", url=page.resolve().as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function body returns in the page; it may await."""
        wrapped = (
            "const done = arguments[arguments.length - 1]; const given = [...arguments].slice(0, -1);"
            f"(async (...arguments) => {{ {script} }})(...given).then(done, (error) => done('failed: ' + error));"
        )
        out = self._ask("POST", "execute/async", script=wrapped, args=arguments)
        assert not (isinstance(out, str) and out.startswith("failed: ")), out
        return out

    def size(self, width: int, height: int) -> None:
        """The size of the page's own window, as a phone would have it too."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def dark(self, on: bool) -> None:
        """What the system asks for."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.devtools("Emulation.setEmulatedMedia", features=features)

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._ask("POST", "goog/cdp/execute", cmd=command, params=parameters)

    def move(self, x: float, y: float, press: bool = False) -> None:
        """The pointer, to a place in the window."""
        moves: list[dict[str, Any]] = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]
        moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}] if press else []
        self._ask("POST", "actions", actions=[{"type": "pointer", "id": "mouse", "actions": moves}])

    def press(self, *keys: str) -> None:
        """Keys by name, or text letter by letter."""
        letters = [key for name in keys for key in ([KEYS[name]] if name in KEYS else name)]
        typed = [{"type": kind, "value": key} for key in letters for kind in ("keyDown", "keyUp")]
        self._ask("POST", "actions", actions=[{"type": "key", "id": "keys", "actions": typed}])

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the page was opened."""
        return [entry["message"] for entry in self._ask("POST", "se/log", type="browser")]

    def requests(self) -> list[str]:
        """Every address that was asked for since the page was opened."""
        found = []
        for entry in self._ask("POST", "se/log", type="performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def picture(self, path: Path, whole: bool = False) -> None:
        """A screenshot of the window, or of the whole page."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


def ask(method: str, url: str, body: dict[str, Any]) -> Any:
    """One command to the driver; its complaint becomes the error."""
    data = json.dumps(body).encode() if method == "POST" else None
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A fresh browser, which leaves nothing behind."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        downloads = Path(folder) / "downloads"
        downloads.mkdir()
        driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            port = next(found[1] for line in driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
            url = f"http://127.0.0.1:{port}/session"
            session = ask("POST", url, {"capabilities": {"alwaysMatch": _capabilities(Path(folder), downloads)}})
            browser = Browser(f"{url}/{session['sessionId']}", downloads)
            try:
                yield browser
            finally:
                ask("DELETE", f"{url}/{session['sessionId']}", {})
        finally:
            driver.terminate()
            driver.wait()
            driver.stdout.close()


def _capabilities(folder: Path, downloads: Path) -> dict[str, Any]:
    return {
        "goog:chromeOptions": {
            "binary": CHROMIUM,
            "args": [*OPTIONS, f"--user-data-dir={folder / 'profile'}"],
            "prefs": {"download.default_directory": str(downloads), "download.prompt_for_download": False},
        },
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
