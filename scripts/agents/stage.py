"""A stage: the strict mock provider and the gateway in front of it, on loopback, with a store of their own in a folder.

Refuses to touch anything outside its folder, and ends only the processes that it started.
"""

import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

from tap import Tap
from witness import Witness

ROOT = pathlib.Path(__file__).resolve().parents[2]
READY_SECONDS_MAX = 30
STOP_SECONDS_MAX = 20


class NotReady(Exception):
    """A server that does not come up."""


def epitome():
    """The binary: the one that EPITOME names, or else that of this checkout's last build."""
    named = os.environ.get("EPITOME")
    if named:
        return named
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "epitome" for profile in ("release", "debug")]
    found = sorted((path for path in built if path.exists()), key=lambda path: path.stat().st_mtime)
    if not found:
        raise NotReady("There is no epitome to run: say `cargo build` first, or name one in EPITOME.")
    return str(found[-1])


def free_port():
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get_json(url):
    """The JSON at an address."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


class Server:
    """A process that listens, from start to stop."""

    def __init__(self, name, command, ready_url, folder, env=None):
        self.name = name
        self.log = folder / f"{name}.log"
        self.out = self.log.open("wb")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT, cwd=folder, env=env
        )
        try:
            self.wait_until_ready(ready_url)
        except NotReady:
            self.stop()
            raise

    def wait_until_ready(self, url):
        until = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(url, timeout=2):
                    return
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.05)
        raise NotReady(f"{self.name} is not ready: {self.tail()}")

    def tail(self):
        """The last lines that it wrote."""
        return self.log.read_text(errors="replace")[-2000:]

    def stop(self):
        """Asks it to stop, and ends it where it does not."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.out.close()


class Stage:
    """A mock, a witness before it, the gateway before that, and a tap at the gateway's door; all up.

    ```text
    agent ──► tap ──► gateway ──► witness ──► mock
    ```
    """

    def __init__(self, folder, turns, bytes_each, serve_options=(), mock_options=(), without_gateway=False):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stops = []
        try:
            self.start(turns, bytes_each, serve_options, mock_options, without_gateway)
        except BaseException:
            self.stop()
            raise

    def start(self, turns, bytes_each, serve_options, mock_options, without_gateway):
        binary = epitome()
        # Nothing of the machine's own settings reaches either of them.
        home = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
        }
        port = free_port()
        self.mock_url = f"http://127.0.0.1:{port}"
        mock = [
            binary,
            "mock",
            "--port",
            str(port),
            "--work",
            str(turns),
            "--work-bytes",
            str(bytes_each),
            *mock_options,
        ]
        self.mock = Server("mock", mock, f"{self.mock_url}/mock/stats", self.folder, home)
        self.stops.append(self.mock.stop)
        self.witness = Witness(self.mock_url)
        self.stops.append(self.witness.stop)
        self.gateway_url = self.witness.url if without_gateway else self.start_gateway(binary, home, serve_options)
        self.tap = Tap(self.gateway_url)
        self.stops.append(self.tap.stop)
        self.url = self.tap.url

    def start_gateway(self, binary, home, serve_options):
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        upstreams = [
            word
            for family in ("openai", "anthropic", "gemini")
            for word in ("--upstream", f"{family}={self.witness.url}")
        ]
        store = ["--store", f"sqlite:{self.folder / 'epitome.db'}"]
        serve = [binary, "serve", "--listen", f"127.0.0.1:{port}", *upstreams, *store, *serve_options]
        self.gateway = Server("gateway", serve, f"{url}/readyz", self.folder, home)
        self.stops.append(self.gateway.stop)
        return url

    def api(self, path):
        """An answer of the gateway's own API."""
        return get_json(f"{self.gateway_url}/api{path}")

    def violations(self):
        """The rules of the provider that were broken."""
        return get_json(f"{self.mock_url}/mock/stats")["violations"]

    def stop(self):
        """Stops everything, last started first."""
        while self.stops:
            self.stops.pop()()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
