# Everything a checkout needs: Python 3.10 or newer and make. `make run` and `make test` set up the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKED := $(VENV)/.locked
STAMP := $(VENV)/.installed
LOCK := requirements/dev.lock
EXTRAS := otlp fsspec fast sidecar deliver parquet kafka
UV := uv==0.13.9

.DEFAULT_GOAL := help
.PHONY: help run test restarts lint format types bench docs wheel lock clean serve faults load interop captures

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1|/' | awk -F'|' '{printf "%-16s%s\n", $$1, $$2}'

$(VENV): $(STAMP)

# Built anew whenever the lock changes; a half-built environment has no stamp.
$(LOCKED): $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "sediment-otel needs Python 3.10 or newer; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 | head -n 1)" >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Building $(VENV) with $$($(PYTHON) --version) ..." >&2
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r $(LOCK)
	@touch $@

# The project's own metadata (entry points, version) changed: put only the project in again.
$(STAMP): $(LOCKED) pyproject.toml
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: $(STAMP) ## convert an example agent session into a fact store and show what came out
	@BIN=$(BIN) bash examples/run.sh

test: $(STAMP) ## run all tests
	$(BIN)/python -m pytest -q

restarts: $(STAMP) ## deliver 10 000 facts into a real Sediment that is killed and restarted twice
	SEDIMENT_DELIVERY_FACTS=10000 $(BIN)/python -m pytest -q -s tests/sediment/test_delivery_through_restarts.py

lint: $(STAMP) ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## let ruff correct what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## mypy --strict on the package
	$(BIN)/mypy --strict src

bench: $(STAMP) ## measure translation against its floor
	$(BIN)/python benchmarks/bench.py

docs: $(STAMP) ## write the pages that are made from tables
	$(BIN)/python -m sediment_otel.dialects._document docs/dialects.md semconv/dialects.json

serve: $(STAMP) ## start the sidecar (OTLP on 127.0.0.1:4317 and :4318) with a store in out/sidecar
	@mkdir -p out
	@exec $(BIN)/sediment-otel serve --data out/sidecar

faults: $(STAMP) ## kill the sidecar a hundred times under load; every acknowledged span must have one outcome
	$(BIN)/python tests/faults/kill_rounds.py --rounds 100

load: $(STAMP) ## load the sidecar for two minutes and measure it against convert
	$(BIN)/python benchmarks/load.py

# Senders that cannot stand in $(VENV) (they pin other versions, or are no Python): with them nothing in tests/sidecar is skipped.
interop: ## put the JSON exporter, the Node SDK and the collector rotel into out/interop, for the sidecar's tests
	@mkdir -p out/interop/node
	$(PYTHON) -m venv out/interop/python
	out/interop/python/bin/pip install -qq --disable-pip-version-check . opentelemetry-exporter-otlp-json-http rotel
	npm install --silent --no-audit --no-fund --prefix out/interop/node \
	  $(foreach kind,grpc http proto,@opentelemetry/exporter-trace-otlp-$(kind) @opentelemetry/exporter-logs-otlp-$(kind))

captures: $(STAMP) ## run the coding agents anew (npm, versions in requirements/agents.txt) and write what they emit
	$(BIN)/python tests/agents/agent_capture.py $(AGENTS)

wheel: $(STAMP) ## build the wheel into dist/
	$(BIN)/python -m hatchling build -t wheel

lock: ## resolve the lock file anew (all platforms, Python 3.10 and newer)
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	$(PYTHON) -m venv "$$tools" && "$$tools/bin/pip" install -qq --disable-pip-version-check $(UV) && \
	UV_PYTHON_DOWNLOADS=never "$$tools/bin/uv" pip compile --quiet --universal --python-version 3.10 --upgrade \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --group dev $(EXTRAS:%=--extra %) pyproject.toml -o $(LOCK) && \
	for name in captures captures-openai-v2 captures-dialects; do \
	  UV_PYTHON_DOWNLOADS=never "$$tools/bin/uv" pip compile --quiet --universal --python-version 3.10 --upgrade \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    requirements/$$name.in pyproject.toml -o requirements/$$name.lock || exit 1; \
	done && \
	UV_PYTHON_DOWNLOADS=never "$$tools/bin/uv" pip compile --quiet --universal --python-version 3.12 --upgrade \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --extra deliver requirements/sediment.in pyproject.toml -o requirements/sediment.lock

clean: ## remove what the other targets made
	rm -rf $(VENV) out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
