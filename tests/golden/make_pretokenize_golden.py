#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes pretokenize_golden.json: how each published split pattern cuts many small texts.

The patterns run in the `regex` package (pip install regex), which knows \\p{..}, lookahead and
Unicode case folding; nothing of our scanners is used. Texts are built from characters of every class
the patterns tell apart, only of code points that Unicode 14 already had, so that the tables of both
sides agree. Format: {"same": {alias: name}, "cases": [[text, {name: [bytes of each piece]}], ...]}.

  --count N    random texts (default 500)         --seed S   another set
"""
import argparse
import json
import os
import random
import unicodedata

import regex

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

PATTERNS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                  + TAIL],
    "qwen2": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL],
    "qwen35": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
               r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        r"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"| ?[\p{P}\p{S}]+[\r\n]*" + TAIL,
    ],
    "gpt-4o": [
        r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?"
        r"|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + CONTRACTIONS + "?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL],
    "tekken": [
        r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+"
        r"|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}
SAME = {"deepseek-r1-qwen": "qwen2", "llama3": "llama-bpe", "starcoder": "smollm"}

ALPHABETS = [
    # whitespace of every kind against words, digits and punctuation
    " \t\n\r\u00a0\u2003\u3000\u0085\u2028ab1!",
    "  \n\n\r aB1.",
    # apostrophes and what follows them; U+017F folds to s, U+212A to k
    "'sStTrReEvVmMlLdD\u017f\u2019 a1",
    "''sdtm ll re ve",
    # letters by case and kind: Lu Ll Lt Lm Lo, marks Mn Mc Me
    "aAzZ\u00e9\u00c9\u01c5\u02b0\u4e2d\u05d0\u0301\u0903\u20dd\u00df \t!",
    "ABCabc\u4e2d\u0301 1/\n",
    # numbers Nd Nl No
    "0123456789\u0664\u2167\u00bd\uff11 a.",
    # punctuation and symbols of every category, slashes, newlines behind them
    "!?.,/()-_\u00ab\u00bb\u2014$+<=>^~|`@#%&*\\\u20ac\u00a9\u02c6 \n\ra1",
    # Han, kana, Hangul, and the unassigned and marked places of the kana blocks
    "\u4e2d\u6587\u3042\u30ab\u3099\u309b\u30fb\u3040\u3097\ud55c\uac00\u9fff\u3400 a1!\u3002",
    # controls, format characters, unassigned, private use, outside the BMP
    "\x00\x01\x1b\x1c\x1f\x7f\u200b\u200d\ufeff\u00ad\u0378\ue000\U0001f600\U0001d400\U00020000 a1!\n",
    "\x01\x02 a\u0301.",
]


def split(text, patterns):
    pieces = [text]
    for pattern in patterns:
        compiled = regex.compile(pattern, regex.V0)
        cut = []
        for piece in pieces:
            at = 0
            for match in compiled.finditer(piece):
                if match.start() > at:
                    cut.append(piece[at:match.start()])
                if match.end() > match.start():
                    cut.append(match.group())
                at = match.end()
            if at < len(piece):
                cut.append(piece[at:])
        pieces = cut
    return pieces


def random_char(rng):
    while True:
        c = rng.choice([rng.randrange(0x250), rng.randrange(0x3000), rng.randrange(0x110000)])
        if 0xD800 <= c <= 0xDFFF:
            continue
        if unicodedata.category(chr(c)) != "Cn":  # assigned in Python's Unicode 14
            return chr(c)


def random_text(rng):
    length = rng.choice([1, 2, 3, 4, 6, 9, 14, 24])
    kind = rng.random()
    if kind < 0.1:
        return "".join(random_char(rng) for _ in range(length))
    alphabet = rng.choice(ALPHABETS)
    if kind < 0.3:
        alphabet += rng.choice(ALPHABETS)
    out = []
    while len(out) < length:
        out += [rng.choice(alphabet)] * (1 if rng.random() < 0.7 else rng.randrange(2, 5))
    return "".join(out)


FIXED = [
    "", " ", "  ", "Hello world", "  a", "   a", " \n a", "a  5", "12345", "a12345b", "don't DON'T",
    "it'\u017f", "we'll we'LL", "foo'bar", "a\r\n\r\nb", "x  \n  y", "!!!\n\n!", "price: $5.00!",
    "\u4e2dABC", "\u4e2dABCd", "AB\u0301C", "\u0301ABC", "aBcD'S x", "path/to/file//\n/", "\x01\x02a",
    "\U0001f469\u200d\U0001f4bb ok", "caf\u00e9 d\u00e9j\u00e0 vu \u2014 123 \U0001f60a",
    "\u0915\u094d\u0937 \u0939\u093f\u0928\u094d\u0926\u0940", "a\u3000b", "\t\tint x = 0;\n\t}",
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__),
                                                      "pretokenize_golden.json"))
    args = parser.parse_args()
    rng = random.Random(args.seed)
    texts = FIXED + [random_text(rng) for _ in range(args.count)]
    cases = []
    for text in texts:
        pieces = {name: [len(p.encode()) for p in split(text, patterns)]
                  for name, patterns in PATTERNS.items()}
        cases.append([text, pieces])
    with open(args.out, "w") as out:
        out.write('{"same": %s,\n"cases": [\n' % json.dumps(SAME))
        out.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
        out.write("\n]}\n")


if __name__ == "__main__":
    main()
