"""bench/rivals/compare.py without any rival: its statistics, its table, its clock on streams, its errors."""
import contextlib
import importlib.util
import json
import pathlib
import socket
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("compare", ROOT / "bench" / "rivals" / "compare.py")
compare = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(compare)


def chunk(text):
    return f"{len(text.encode()):x}\r\n{text}\r\n".encode()


def answer(*chunks, status="200 OK"):
    return f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + b"".join(map(chunk, chunks)) + b"0\r\n\r\n"


def test_medians_spreads_and_ratios_are_those_of_the_rounds():
    rows = compare.compare({"prefill": [400.0, 100.0, 300.0], "ours_alone": [1.0]}, {"prefill": [100.0, 50.0, 60.0]})
    assert list(rows) == ["prefill"]
    row = rows["prefill"]
    assert (row["ours"]["median"], row["ours"]["min"], row["ours"]["max"]) == (300, 100, 400)
    assert row["ours"]["runs"] == [400.0, 100.0, 300.0]
    assert row["ratio"] == 5  # of the medians: 300 / 60
    assert (row["ratio_min"], row["ratio_max"]) == (2, 5)  # 100/50 and 300/60, of the same round


def test_a_rival_that_measured_zero_gives_no_ratio():
    row = compare.compare({"turns.later_ttft_p50_ms": [3.0]}, {"turns.later_ttft_p50_ms": [0.0]})["turns.later_ttft_p50_ms"]
    assert row["ratio"] is None and row["ratio_min"] is None
    assert "| -" in compare.table({"turns.later_ttft_p50_ms": row}, 512)


def test_the_table_names_the_work_and_which_way_is_better():
    rows = compare.compare({"decode@16": [900.0, 910.0], "turns.later_ttft_p50_ms": [60.0, 62.0]},
                           {"decode@16": [300.0, 310.0], "turns.later_ttft_p50_ms": [600.0, 640.0]})
    lines = compare.table(rows, 512).splitlines()
    assert len({len(line) for line in lines}) == 1
    decode, turns = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert decode == ["decode, 16 stream(s) after 512 tokens", "tok/s", "905 (900-910)", "305 (300-310)", "2.97", "2.94-3", "more"]
    assert turns == ["turns: later TTFT p50", "ms", "61.0 (60.0-62.0)", "620 (600-640)", "0.0984", "0.0969-0.1", "less"]


def test_decode_counts_only_the_time_when_every_stream_was_running():
    early = [(t / 10, t) for t in range(1, 101)]  # alone until 5.0
    late = [(5 + t / 10, t) for t in range(0, 51)]
    late[0] = (5.0, 1)
    # From 5.0 (the second began) to 10.0: 50 tokens of the first, 49 of the second.
    assert compare.decode_rate([early, late], 100) == pytest.approx(99 / 5)


@pytest.mark.parametrize("streams, told", [
    ([[(1.0, 1)], []], "gave no token"),
    ([[(1.0, 1), (2.0, 2)], [(1.9, 1), (3.0, 9)]], "only 1 tokens"),
    ([[(1.0, 1), (2.0, 64)]], "in 1 pieces"),
])
def test_a_decode_rate_that_was_not_seen_is_an_error(streams, told):
    with pytest.raises(compare.Failure, match=told):
        compare.decode_rate(streams, 64)


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_events_are_found_and_timed_wherever_the_network_cuts_the_answer(piece):
    raw = answer('data: {"n":1}\n\ndata: {"n":', '2}\n\n: ping\n\n', 'data: {"n":3}\n\ndata: [DONE]\n\n')
    pieces = [(float(i), raw[i * piece:(i + 1) * piece]) for i in range(-(-len(raw) // piece))]
    events = compare.EventReader(pieces).events
    assert [event for _, event in events] == [{"n": 1}, {"n": 2}, {"n": 3}]
    for at, event in events:
        # Never earlier than the piece with the event's own last byte.
        assert at >= raw.index(b'"n":3' if event["n"] == 3 else b'"n":1' if event["n"] == 1 else b"2}") // piece
    assert [at for at, _ in events] == sorted(at for at, _ in events)


def test_refusals_of_a_server_are_told():
    with pytest.raises(compare.Failure, match="answered 400.*no such model"):
        compare.EventReader([(0.0, answer('{"error":"no such model"}', status="400 Bad Request"))])
    with pytest.raises(compare.Failure, match="closed the connection early"):
        compare.EventReader([(0.0, b"HTTP/1.1 200")])


def serve_once(listener, raw):
    """Answers one request with `raw`, then stays open until the client leaves."""
    connection, _ = listener.accept()
    with contextlib.closing(connection):
        connection.recv(1 << 16)
        connection.sendall(raw)
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass


def test_a_stream_is_left_as_soon_as_enough_was_seen():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        unfinished = answer(*[f'data: {json.dumps({"n": n})}\n\n' for n in range(20)])[:-5]
        server = threading.Thread(target=serve_once, args=(listener, unfinished))
        server.start()
        _, (reader,) = compare.run_streams(url, "/", [{}], events_per_stream=0)
        server.join(30)
        assert not server.is_alive()
        assert [event for _, event in reader.events] == [{"n": n} for n in range(len(reader.events))]


def test_a_server_that_does_not_come_up_is_an_error_with_its_last_words():
    with pytest.raises(compare.Failure, match=r"rival did not come up \(exit status 3\).*(\n.*)*bad model"):
        with compare.Server("rival", ["sh", "-c", "echo bad model; exit 3"]):
            pass
    with pytest.raises(compare.Failure, match="cannot run /no/such/program"):
        with compare.Server("rival", ["/no/such/program"]):
            pass


def test_a_server_that_dies_while_it_is_measured_is_told_with_the_error():
    with pytest.raises(compare.Failure, match=r"rival: no answer\nrival had ended by itself \(exit status 4\).*(\n.*)*out of memory"):
        with compare.Server("rival", ["sh", "-c", "echo listening on http://127.0.0.1:1; echo out of memory; exit 4"]) as server:
            server.process.wait(30)
            raise compare.Failure("no answer")
    with pytest.raises(compare.Failure, match="^rival: refused$"):
        with compare.Server("rival", ["sh", "-c", "echo listening on http://127.0.0.1:1; exec sleep 600"]):
            raise OSError("refused")


def test_a_server_is_stopped_with_everything_it_started():
    with compare.Server("rival", ["sh", "-c", "sleep 600 & echo child $!; echo listening on http://127.0.0.1:1; wait"]) as server:
        assert server.url == "http://127.0.0.1:1"
    assert server.process.returncode is not None
    assert not server.reader.is_alive()  # its pipe is closed: no process of the group holds it any more


def test_a_rival_built_for_less_than_the_machine_is_called_unfair():
    avx2, avx512 = "AVX2 = 1 | FMA = 1", "AVX2 = 1 | AVX512 = 1 | AVX512_VNNI = 1"
    assert "AVX-512" in compare.isa_warning(avx2, {"avx2", "avx512f"}, "default")
    assert compare.isa_warning(avx2, {"avx2", "avx512f"}, "avx2") is None
    assert compare.isa_warning(avx512, {"avx2", "avx512f"}, "default") is None
    assert compare.isa_warning(avx2, {"avx2"}, "default") is None


def test_wrong_inputs_are_refused_before_anything_starts(tmp_path):
    program = tmp_path / "taproot"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    not_a_model = tmp_path / "model.gguf"
    not_a_model.write_bytes(b"{}")

    def failure(*arguments):
        options = compare.parse_arguments(["--rivals-dir", str(tmp_path / "rivals"), "--taproot", str(program), *arguments])
        with pytest.raises(compare.Failure) as caught:
            compare.check_inputs(options, compare.Theirs(options))
        return str(caught.value)

    assert "No such file" in failure("--model", str(tmp_path / "missing.gguf"))
    assert "not a GGUF file" in failure("--model", str(not_a_model))
    not_a_model.write_bytes(b"GGUF")
    assert "--rival native --install" in failure("--model", str(not_a_model))
    assert "no program at" in failure("--taproot", str(tmp_path))
    for bad in (["--rivals-dir", str(ROOT / "rivals")], ["--streams", "1,64"], ["--streams", "x"], ["--rounds", "0"]):
        with pytest.raises(SystemExit):
            compare.parse_arguments(bad)
