#!/usr/bin/env python3
"""Checks the house: include edges, banned calls, file sizes, leftovers. Prints findings; exit 1 when there are any.

Usage: scripts/tidy.py [--report]   (--report: also file and function sizes, which never fail)
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What a folder may include besides itself: strictly below it (docs/ARCHITECTURE.md, levels).
EDGES = {
    "base": set(),
    "kernels": {"base"},
    "radix_cache": {"base"},
    "text": {"base"},
    "config": {"base"},
    "policies": {"base", "radix_cache"},
    "link": {"base", "radix_cache", "text"},
    "worker": {"base", "kernels", "radix_cache", "text", "config", "policies", "link"},
    "gateway": {"base", "radix_cache", "text", "config", "policies", "link"},
    "cli": {"base", "kernels", "radix_cache", "text", "config", "policies", "link", "worker", "gateway"},
}
BANNED = {  # call: what to use instead
    r"\bstd::regex\b": "a linear scanner (std::regex recurses and can overflow the stack)",
    r"\bstd::cout\b|\bstd::cerr\b": "log_info() and friends, or fmt::print in cli/",
    r"\brand\(\)|\bsrand\(": "base/random.h",
    r"\bsprintf\(|\bstrcpy\(|\bstrcat\(": "fmt::format",
    r"\bsleep_for\(|\busleep\(": "a timer, a condition, or ManualClock in tests",
    r"\bassert\(": "TAPROOT_ASSERT or TAPROOT_DASSERT",
    r"\batoi\(|\batof\(|\bstd::stoi\(": "std::from_chars",
}
LEFTOVERS = re.compile(r"\b(FIXME|XXX|HACK)\b|<<<<<<<|>>>>>>>")
CODE = {".h", ".cc"}
BLOB_BYTES_MAX = 600 * 1024
LINE_MAX = 100


def tracked():
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True)
    return [pathlib.Path(name) for name in out.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def check_code(path, text, findings):
    folder = path.parts[0]
    product = folder in EDGES
    if not text.startswith("// SPDX-License-Identifier: Apache-2.0"):
        findings.append(f"{path}:1: the first line must be the SPDX line")
    if path.suffix == ".h" and "#pragma once" not in text:
        findings.append(f"{path}:1: no #pragma once")
    for number, line in enumerate(text.splitlines(), 1):
        if include := re.match(r'\s*#include "([^"/]+)/', line):
            target = include.group(1)
            if product and target != folder and target in EDGES and target not in EDGES[folder]:
                findings.append(f"{path}:{number}: {folder}/ may not include {target}/ (allowed: {', '.join(sorted(EDGES[folder])) or 'nothing'})")
        if len(line) > LINE_MAX and "http" not in line and '"' not in line:
            findings.append(f"{path}:{number}: {len(line)} columns (at most {LINE_MAX})")
        code = re.sub(r"//.*|\"(\\.|[^\"])*\"", "", line)
        for pattern, instead in BANNED.items():
            if re.search(pattern, code) and product and not (folder == "cli" and "cout" in pattern):
                findings.append(f"{path}:{number}: banned call; use {instead}")


def sizes(files):
    lengths = sorted(len((ROOT / f).read_text(errors="replace").splitlines()) for f in files)
    if lengths:
        print(f"files: {len(lengths)}, lines: {sum(lengths)}, median {lengths[len(lengths) // 2]}, "
              f"p90 {lengths[len(lengths) * 9 // 10]}, max {lengths[-1]}")


def main():
    findings, code = [], []
    for path in tracked():
        full = ROOT / path
        if full.stat().st_size > BLOB_BYTES_MAX:
            findings.append(f"{path}: {full.stat().st_size} bytes; no large blobs in the repository")
        if path.suffix not in CODE | {".py", ".md", ".yaml", ".cmake", ".txt", ""}:
            continue
        try:
            text = full.read_text()
        except UnicodeDecodeError:
            continue
        if path.name != "tidy.py":
            for number, line in enumerate(text.splitlines(), 1):
                if LEFTOVERS.search(line):
                    findings.append(f"{path}:{number}: leftover: {line.strip()[:80]}")
        if path.suffix in CODE:
            code.append(path)
            check_code(path, text, findings)
    for folder in EDGES:
        if (ROOT / folder).is_dir() and not (ROOT / folder / "README.md").exists():
            findings.append(f"{folder}/: no README.md")
    print("\n".join(findings))
    if "--report" in sys.argv:
        sizes([f for f in code if f.parts[0] != "tests"])
        sizes([f for f in code if f.parts[0] == "tests"])
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
