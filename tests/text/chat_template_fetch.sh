#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the public chat templates that chat_template_goldens_test compares with, from the sdist of
# llama-cpp-python 0.3.36 (MIT), into models/chat_templates (ignored by git). They are not ours to copy.
set -eu
cd "$(dirname "$0")/../.."
target=${1:-models/chat_templates}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download -q --no-deps --no-build-isolation --no-binary llama-cpp-python \
    -d "$work" llama-cpp-python==0.3.36
mkdir -p "$target"
tar xzf "$work"/*.tar.gz -C "$work"
find "$work" -path '*/models/templates/*.jinja' -exec cp {} "$target" \;
echo "$(ls "$target" | wc -l) templates in $target"
