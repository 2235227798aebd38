#!/usr/bin/env python3
"""Holds a three-turn chat over a long system prompt and shows what was reused and where it ran.

Usage: scripts/demo_chat.py [--url URL] [--pid PID]   (PID: give up when that process ends)
Needs nothing but the standard library.
"""
import argparse
import http.client
import json
import os
import sys
import time
import urllib.parse

# About 600 tokens that stay the same in every turn, as an agent's instructions do.
RULES = " ".join(
    f"Rule {i}: when a guest asks about {topic}, answer in one short friendly sentence and name one detail."
    for i, topic in enumerate(
        "breakfast,parking,the pool,late arrival,early departure,the garden,bicycles,the library,towels,"
        "the train station,the old bridge,the museum,markets,the harbour,boat trips,dinner,vegetarian food,"
        "children,dogs,the sauna,quiet hours,laundry,the lift,payment,keys,umbrellas,the weather".split(","), 1))
SYSTEM = "You are the host of a small hotel by a river. " + RULES
QUESTIONS = ["Good morning! When is breakfast?", "And where can I leave my car?", "Thank you. Is the old bridge far away?"]


def get_json(host, path):
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body else {}
    finally:
        connection.close()


def wait_ready(host, pid, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if get_json(host, "/ready")[0] == 200:
                return
        except (OSError, ValueError, http.client.HTTPException):
            pass
        if pid:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                sys.exit("demo: the server ended before it was ready")
        time.sleep(0.1)
    sys.exit(f"demo: no worker was ready within {seconds} s")


def ask(host, messages):
    """Streams one answer; returns text, usage, seconds to the first token, and the headers."""
    body = json.dumps({"messages": messages, "max_tokens": 40, "temperature": 0, "stream": True,
                       "stream_options": {"include_usage": True}})
    connection = http.client.HTTPConnection(host, timeout=120)
    start = time.monotonic()
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        sys.exit(f"demo: HTTP {response.status}: {response.read().decode(errors='replace')}")
    text, usage, first = "", {}, None
    for line in response:
        line = line.strip()
        if not line.startswith(b"data: ") or line == b"data: [DONE]":
            continue
        event = json.loads(line[6:])
        if "error" in event:
            sys.exit(f"demo: the stream failed: {event['error']['message']}")
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            if choice["delta"].get("content"):
                first = first or time.monotonic()
                text += choice["delta"]["content"]
    headers = dict(response.getheaders())
    connection.close()
    return text, usage, (first or time.monotonic()) - start, headers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--pid", type=int, default=0)
    options = parser.parse_args()
    host = urllib.parse.urlsplit(options.url).netloc
    wait_ready(host, options.pid)
    messages = [{"role": "system", "content": SYSTEM}]
    for turn, question in enumerate(QUESTIONS, 1):
        messages.append({"role": "user", "content": question})
        text, usage, ttft, headers = ask(host, messages)
        messages.append({"role": "assistant", "content": text})
        cached, prompt = usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]
        _, route = get_json(host, "/debug/route?request_id=" + urllib.parse.quote(headers.get("x-request-id", "")))
        print(f"\n[turn {turn}] {question}\n  {text.strip()}")
        print(f"  prompt {prompt} tokens, cached {cached} ({100 * cached // prompt} %), "
              f"first token after {1000 * ttft:.0f} ms, worker {headers.get('x-taproot-worker', '?')}: "
              f"{route.get('reason', '?')}", flush=True)


if __name__ == "__main__":
    main()
