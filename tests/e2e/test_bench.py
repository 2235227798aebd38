"""The measuring commands: small runs, to see that they measure what they say and refuse what they must."""
import json
import subprocess

import pytest
from conftest import BIN


def taproot(*arguments, code=0, **options):
    done = subprocess.run([str(BIN / "taproot"), *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def plain_json(text):
    """Parses, and refuses numbers like 1.97E2, which no person wants to read."""
    def number(digits):
        assert "e" not in digits.lower(), digits
        return float(digits)
    return json.loads(text, parse_float=number)


def test_roofs_are_told_in_plain_numbers():
    roofs = plain_json(taproot("bench", "roofs", "--seconds", 0.2, "--threads", 2, "--json"))
    assert roofs["threads"] == 2 and len(roofs["read_bytes_per_s"]) == 2
    for key in ("int8_ops_per_s", "fp32_flop_per_s", "memcpy_bytes_per_s", "fork_join_ns"):
        assert roofs[key] > 0
    assert roofs["bf16_flop_per_s"] is None or roofs["bf16_flop_per_s"] > 0


def test_kernels_agree_with_the_reference_to_the_bit():
    out = plain_json(taproot("bench", "kernels", "--json", "--case-ms", 0, "--filter", "(Q4_1|F16)/576x576/rows:(1|8)$|^rope|argmax"))
    names = {kernel["name"] for kernel in out["kernels"]}
    assert {"linear/Q4_1/576x576/rows:1", "linear/F16/576x576/rows:8", "argmax/49152"} <= names
    for kernel in out["kernels"]:
        assert kernel["us"] > 0 and kernel["us_median"] >= kernel["us"] and kernel["gb_s"] > 0
        assert kernel["compared"] > 0 and kernel["differing"] == 0
        assert (kernel["share"] is None) == (kernel["roof"] is None)
    assert "no kernel" in taproot("bench", "kernels", "--filter", "nothing like it", code=2)
    assert "regular expression" in taproot("bench", "kernels", "--filter", "(", code=2)


@pytest.fixture(scope="module")
def engine(model):
    return plain_json(taproot("bench", "engine", "--model", model, "--prompt", 64, "--gen", 8, "--streams", "1,3",
                              "--shared-prefix", 256, "--repeats", 2, "--profile", "--json"))


def test_engine_tells_medians_and_spread(engine):
    assert engine["depth"] == 256 + 16 and engine["shared_prefix"] == 256 and engine["repeats"] == 2
    spread = engine["prefill_spread"]
    assert 0 < spread["min"] <= engine["prefill_tok_s"] <= spread["max"]
    for streams in ("1", "3"):
        spread = engine["decode_spread"][streams]
        assert 0 < spread["min"] <= engine["decode_tok_s"][streams] <= spread["max"]
    for key in ("linear_int8", "attention_fma", "prefill"):
        assert engine["share"][key] > 0


def test_engine_counts_what_attention_reads_of_a_shared_prefix(engine):
    page = 16 * 30 * 3 * 64 * 2 * 2  # tokens, layers, heads, dims, K and V, bytes
    # One or two pages of its own for each stream, behind sixteen common ones.
    assert 17 * page <= engine["kv_bytes_minimum"]["1"] <= 18 * page
    assert 19 * page <= engine["kv_bytes_minimum"]["3"] <= 22 * page
    for streams in ("1", "3"):
        assert engine["kv_bytes_minimum"][streams] <= engine["kv_bytes_read"][streams]
    assert engine["kv_bytes_read"]["3"] < 1.3 * engine["kv_bytes_minimum"]["3"]


def test_engine_profiles_a_step(engine):
    for step in (engine["profile_ms"]["prefill"], *engine["profile_ms"]["decode"].values()):
        parts = {key: value for key, value in step.items() if key != "step"}
        assert {"schedule", "norm_quantize", "qkv", "attention", "out", "gate_up", "down", "head", "sample"} <= set(parts)
        assert all(value >= 0 for value in parts.values())
        assert sum(parts.values()) == pytest.approx(step["step"], rel=0.01)


def test_engine_refuses_what_does_not_fit(model):
    engine = ["bench", "engine", "--model", model]
    assert "8192" in taproot(*engine, "--prompt", 8192, code=2)
    assert "--depth" in taproot(*engine, "--depth", 8100, "--gen", 128, code=2)
    assert "--shared-prefix" in taproot(*engine, "--depth", 100, "--shared-prefix", 100, code=2)
    assert "--repeats" in taproot(*engine, "--repeats", 0, code=2)


def test_a_long_prompt_among_running_streams(fleet):
    out = plain_json(taproot("bench", "serve", "--url", fleet.url, "--workload", "interference", "--json",
                             "--long-prompt", 1500, "--running", 2))
    assert out["work"] == "interference" and out["streams"] == 2
    assert out["long_prompt_tokens"] == pytest.approx(1500, rel=0.1)
    assert out["long_ttft_ms"] > 0 and out["gaps"] > 0
    for key in ("", "before_"):
        assert 0 <= out[f"itl_{key}p50_ms"] <= out[f"itl_{key}p99_ms"]
    assert out["itl_p99_ms"] <= out["max_gap_ms"] and out["itl_before_p99_ms"] <= out["max_gap_before_ms"]


def test_determinism_tells_what_it_compared(model):
    out = plain_json(taproot("check", "determinism", "--short", "--json", "--model", model))
    assert out["differing"] == 0 and out["compared"] > 1000
    names = [scenario["name"] for scenario in out["scenarios"]]
    assert len(names) == len(set(names)) >= 12
    for scenario in out["scenarios"]:
        assert scenario["requests"] > 0 and scenario["compared"] > 0 and scenario["seconds"] >= 0
