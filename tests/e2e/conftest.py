"""Real binaries, real sockets, the official client. One fleet of two workers serves most tests."""
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("TAPROOT_BIN", ROOT / "build" / "release" / "bin"))
MODEL = pathlib.Path(os.environ.get("TAPROOT_MODEL") or ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")

FLEET = """
model:
    path: {model}
    name: smollm2
gateway:
    listen: 127.0.0.1:0
    reconnect_ms_max: 200
workers:
    - name: w0
      threads: 1
      kv_bytes: 256MiB
    - name: w1
      threads: 1
      kv_bytes: 256MiB
"""


def wait_until(condition, seconds=60, what="condition"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true within {seconds} s")


class Server:
    """A program of ours with its output and the port it told."""

    def __init__(self, *command):
        self.lines = []
        self.process = subprocess.Popen([str(BIN / command[0]), *map(str, command[1:])], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def output(self):
        return "\n".join(self.lines)

    def find(self, pattern):
        for line in list(self.lines):
            if match := re.search(pattern, line):
                return match
        return None

    def wait_ready(self):
        def port():
            assert self.process.poll() is None, f"ended early:\n{self.output()}"
            return self.find(r"listening on .*\(port (\d+)\)")
        self.url = f"http://127.0.0.1:{wait_until(port, what='the port').group(1)}"
        wait_until(lambda: self.get("/ready")[0] == 200, what="readiness")
        return self

    def client(self, **options):
        return openai.OpenAI(base_url=self.url + "/v1", api_key=options.pop("api_key", "none"), timeout=120,
                             max_retries=options.pop("max_retries", 0), **options)

    def get(self, path, headers=None):
        import urllib.error
        import urllib.request
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers or {}), timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name):
        """The sum of a metric over its label sets."""
        values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics")[1], re.M)
        return sum(float(v) for v in values)

    def worker_pids(self):
        return {m.group(1): int(m.group(2)) for line in list(self.lines) if (m := re.search(r"started (w\d+) \(pid (\d+)\)", line))}

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(5)
        return self.process.returncode


@pytest.fixture(scope="session")
def model():
    if not MODEL.exists():
        pytest.skip(f"needs the default model ({MODEL}); scripts/get_model.py fetches it")
    return MODEL


def start_fleet(folder, model, text=FLEET):
    file = folder / "fleet.yaml"
    file.write_text(text.format(model=model))
    return Server("taproot", "up", file).wait_ready()


@pytest.fixture(scope="session")
def fleet(model, tmp_path_factory):
    server = start_fleet(tmp_path_factory.mktemp("fleet"), model)
    wait_until(lambda: server.find("w0: ready") and server.find("w1: ready"), what="both workers")
    yield server
    assert server.stop() == 0


@pytest.fixture
def client(fleet):
    return fleet.client()
