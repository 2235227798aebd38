"""Clients that leave, workers that die, files that are wrong."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

import openai
import pytest
from conftest import BIN, FLEET, Server, start_fleet, wait_until


def active(server):
    return server.metric("taproot_gateway_active_requests")


def nothing_left(server):
    return (active(server) == 0 and server.metric("vllm:num_requests_running") == 0 and server.metric("vllm:num_requests_waiting") == 0
            and server.metric("taproot_worker_kv_blocks_active") == 0)


def abort_one(server, after_bytes, stream=True):
    where = urllib.parse.urlsplit(server.url)
    body = json.dumps({"messages": [{"role": "user", "content": "Tell a long story about a river. " * 20}], "max_tokens": 400,
                       "stream": stream, "ignore_eos": True}).encode()
    with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        if after_bytes:
            connection.recv(after_bytes)


def test_1000_aborted_requests_leave_nothing_behind(fleet):  # B114-B119
    threads = []
    for i in range(1000):
        thread = threading.Thread(target=abort_one, args=(fleet, 64 if i % 10 == 0 else 0, i % 3 != 0))
        thread.start()
        threads.append(thread)
        if len(threads) >= 32:
            threads.pop(0).join()
    for thread in threads:
        thread.join()
    wait_until(lambda: nothing_left(fleet), seconds=60, what="zero active sequences and pinned blocks")
    assert fleet.client().chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "hi"}], max_tokens=2).usage


@pytest.fixture
def own_fleet(model, tmp_path):
    server = start_fleet(tmp_path, model)
    wait_until(lambda: server.find("w0: ready") and server.find("w1: ready"), what="both workers")
    yield server
    server.stop()


def stream_long(server, results, i):
    text, finish = "", None
    try:
        stream = server.client().chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": f"Write about stone number {i}."}], max_tokens=600, temperature=0,
            stream=True, extra_body={"ignore_eos": True})
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
        results[i] = ("done", finish)
    except openai.APIError as error:
        results[i] = ("error", finish, str(error))


def test_a_worker_killed_under_load_never_gives_a_false_finish_and_comes_back(own_fleet):  # B039, B142, B144, B148
    results = {}
    threads = [threading.Thread(target=stream_long, args=(own_fleet, results, i)) for i in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: own_fleet.metric("vllm:num_requests_running") >= 4, what="running streams")
    os.kill(own_fleet.worker_pids()["w0"], signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert len(results) == 8
    for outcome in results.values():
        assert outcome[0] == "done" and outcome[1] == "length" or outcome[0] == "error" and outcome[1] is None, outcome
    assert any(outcome[0] == "error" for outcome in results.values())
    # The other worker serves meanwhile, and the restarted one is taken back.
    client = own_fleet.client()
    for i in range(4):
        client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": f"hello {i}"}], max_tokens=2)

    def ask(i):  # several at once: a lone one always goes where the longest prefix is
        raw = client.chat.completions.with_raw_response.create(
            model="smollm2", messages=[{"role": "user", "content": f"{i} {time.monotonic()} says hello"}], max_tokens=8)
        return raw.headers["x-taproot-worker"]

    def both():
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return set(pool.map(ask, range(8))) == {"w0", "w1"}
    wait_until(both, what="answers from both workers")
    wait_until(lambda: nothing_left(own_fleet), what="nothing left")


def memory_mib(pid, field):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M).group(1)) / 1024


def test_two_workers_hold_one_model_and_a_restarted_one_finds_it(own_fleet, model):
    matrices = model.stat().st_size / 2**20 * 0.95  # of the rest, the vocabulary is text
    pids = own_fleet.worker_pids()
    assert len(pids) == 2
    for pid in pids.values():
        assert memory_mib(pid, "RssShmem") > matrices
        assert memory_mib(pid, "RssAnon") < matrices  # no copy of its own
    os.kill(pids["w1"], signal.SIGKILL)
    wait_until(lambda: own_fleet.worker_pids()["w1"] != pids["w1"], what="a new w1")

    def starts():
        return [line for line in list(own_fleet.lines) if "w1: file read" in line]
    wait_until(lambda: len(starts()) == 2, what="the second start of w1")
    assert "weights found ready" in starts()[1]


def test_all_workers_down_is_503_and_an_unknown_model_404(model, tmp_path):  # B053
    server = start_fleet(tmp_path, model)
    try:
        for pid in server.worker_pids().values():
            os.kill(pid, signal.SIGSTOP)
            os.kill(pid, signal.SIGKILL)
        client = server.client()
        with pytest.raises(openai.InternalServerError) as down:
            for _ in range(200):
                client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "hi"}], max_tokens=1)
        assert down.value.status_code == 503 and down.value.code in ("no_available_workers", "worker_lost")
        assert int(down.value.response.headers["retry-after"]) >= 1
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "hi"}])
    finally:
        server.stop()


def test_up_stops_cleanly_within_five_seconds(model, tmp_path):
    server = start_fleet(tmp_path, model)
    begin = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begin < 5


def test_a_misspelt_key_is_named_with_its_place_and_the_right_one(model, tmp_path):  # B193
    file = tmp_path / "bad.yaml"
    file.write_text(FLEET.format(model=model).replace("kv_bytes: 256MiB", "kv_bites: 256MiB", 1))
    for command in (["config", "check", file], ["up", file]):
        run = subprocess.run([BIN / "taproot", *command], capture_output=True, text=True)
        assert run.returncode == 2
        assert f"{file}:11:7" in run.stderr and "kv_bites" in run.stderr and "kv_bytes" in run.stderr, run.stderr


def test_serve_runs_gateway_and_worker_in_one_process_with_keys(model):
    server = Server("taproot", "serve", model, "--port", "0", "--api-key", "secret-key-1", "--served-model-name", "tiny", "--max-model-len", "1024")
    try:
        wait_until(lambda: server.find(r"\(port (\d+)\)"), what="the port")
        server.url = "http://127.0.0.1:" + server.find(r"\(port (\d+)\)").group(1)
        wait_until(lambda: server.get("/ready")[0] == 200, what="readiness")
        with pytest.raises(openai.AuthenticationError) as refused:
            server.client(api_key="wrong").models.list()
        assert refused.value.code == "invalid_api_key"
        client = server.client(api_key="secret-key-1")
        assert client.models.list().data[0].max_model_len == 1024
        assert client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}], max_tokens=3).usage.completion_tokens <= 3
        for path in ("/health", "/ready", "/version", "/metrics"):
            assert server.get(path)[0] == 200
        assert server.get("/v1/models")[0] == 401
    finally:
        assert server.stop() == 0


def test_a_missing_model_file_is_named(tmp_path):
    run = subprocess.run([BIN / "taproot", "serve", tmp_path / "nope.gguf", "--port", "0"], capture_output=True, text=True)
    assert run.returncode != 0 and "nope.gguf" in run.stderr
