#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make run` does: the example session becomes a fact store, and the store is shown.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN=${BIN:-.venv/bin}
store=out/facts.db

mkdir -p out
rm -f "$store" "$store"-wal "$store"-shm
echo "\$ sediment-otel convert examples/agent-session.jsonl -o $store"
"$BIN/sediment-otel" convert examples/agent-session.jsonl -o "$store"
echo
echo "\$ python examples/show_store.py $store"
"$BIN/python" examples/show_store.py "$store"
