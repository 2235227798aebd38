#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes encode_golden.json: ids of many lines by the `tokenizers` package (pip install tokenizers).

The vocabulary and merges come from the default model's GGUF; each pre-tokenizer below is put in front
of them, so that splitting, merging, ignore_merges and dropped bytes are compared end to end.
Lines are cut from this repository's own text and from random characters of all kinds.
Format: {"pres": [...], "cases": [[text, {pre: [ids]}], ...]}.

  --model FILE   the GGUF       --count N   lines (default 120)      --seed S   another set
"""
import argparse
import glob
import json
import os
import random
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

import make_pretokenize_golden as split_golden

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
PRES = ["smollm", "llama-bpe", "qwen2", "gpt-2", "deepseek-v3", "gpt-4o", "tekken"]
IGNORE_MERGES = {"llama-bpe", "tekken"}


def read_header(path):
    with open(path, "rb") as file:
        def number(code):
            return struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))[0]

        def text():
            return file.read(number("Q"))

        def value(kind):
            if kind == 8:
                return text()
            if kind == 9:
                item, count = number("i"), number("Q")
                return [value(item) for _ in range(count)]
            return number({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?",
                           10: "Q", 11: "q", 12: "d"}[kind])

        assert file.read(4) == b"GGUF"
        number("I"), number("Q")
        return {text().decode(): value(number("i")) for _ in range(number("Q"))}


def pre_tokenizer(name):
    if name == "smollm":  # as the model's own tokenizer.json has it
        return pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    steps = [pre_tokenizers.Split(Regex(pattern), behavior="isolated")
             for pattern in split_golden.PATTERNS[name]]
    return pre_tokenizers.Sequence(
        steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def make_tokenizer(header, pre):
    tokens = [t.decode() for t in header["tokenizer.ggml.tokens"]]
    merges = [tuple(m.decode().split(" ", 1)) for m in header["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges,
                                     ignore_merges=pre in IGNORE_MERGES))
    tokenizer.add_special_tokens([
        AddedToken(t, special=True, normalized=False)
        for t, kind in zip(tokens, header["tokenizer.ggml.token_type"]) if kind == 3])
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def repository_lines():
    lines = []
    for pattern in ("*/*.h", "*/*.cc", "docs/*.md", "*/README.md"):
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            with open(path, encoding="utf-8") as file:
                lines += [line for line in file.read().split("\n") if line.strip()]
    return lines


def make_line(rng, lines):
    kind = rng.random()
    if kind < 0.35:
        at = rng.randrange(len(lines))
        return "\n".join(lines[at:at + rng.randrange(1, 4)])[:400]
    text = "".join(split_golden.random_text(rng) for _ in range(rng.randrange(1, 6)))
    if kind < 0.5:
        text += rng.choice(["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_en", "<file_sep>"])
        text += split_golden.random_text(rng)
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=os.path.join(ROOT, "models",
                                                        "SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(HERE, "encode_golden.json"))
    args = parser.parse_args()
    rng = random.Random(args.seed)
    header = read_header(args.model)
    tokenizers = {pre: make_tokenizer(header, pre) for pre in PRES}
    lines = repository_lines()
    texts = [make_line(rng, lines) for _ in range(args.count)]
    texts += ["a\x04b", "th\x04e", "\x04", "x" * 300, "the " * 60, "\U0001f999" * 20]
    cases = [[text, {pre: tokenizers[pre].encode(text, add_special_tokens=False).ids
                     for pre in PRES}] for text in texts]
    with open(args.out, "w") as out:
        out.write('{"pres": %s,\n"cases": [\n' % json.dumps(PRES))
        out.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
        out.write("\n]}\n")


if __name__ == "__main__":
    main()
