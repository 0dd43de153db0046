# The two commands of the README: `make demo` and `make test`. Each sets itself up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
UV_VERSION := 0.13.7
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
BUILD_INPUTS := $(RUST_SOURCES) pyproject.toml
PYTEST_WORKERS ?= 2
SEARCH_SEED ?= $(shell date +%s)

# Tests start many processes that import torch: without bytecode files each compiles it anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint format bench nightly all build clean lock

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo $(VENV)/.built ## train an agent on a simulated market, judge it, report
	@$(BIN)/sekai train examples/demo.toml

test: $(VENV)/.dev $(VENV)/.built ## all tests: Rust, Python, documents
	@echo "==> Rust tests"
	@cargo test --quiet --workspace
	@echo "==> Python tests"
	@$(BIN)/python -m pytest -n $(PYTEST_WORKERS) -m "not nightly"

lint: $(VENV)/.dev $(VENV)/.built ## ruff, mypy --strict, stubtest, rustfmt, clippy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m mypy.stubtest quant_gym_rs --concise
	@cargo fmt --check
	@cargo clippy --quiet --workspace --all-targets -- -D warnings

format: $(VENV)/.dev ## rewrite the sources in the project's style
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .
	@cargo fmt

bench: $(VENV)/.dev $(VENV)/.built ## benchmarks beside their peers
	@$(BIN)/python benchmarks/framework.py
	@$(BIN)/python benchmarks/vector.py
	@$(BIN)/python benchmarks/market.py
	@$(BIN)/python benchmarks/windows.py
	@$(BIN)/python benchmarks/portfolio.py
	@$(BIN)/python benchmarks/qlib_provider.py
	@$(BIN)/python benchmarks/orders.py
	@$(BIN)/python benchmarks/training.py
	@$(BIN)/python benchmarks/policy.py
	@$(BIN)/python benchmarks/optima.py
	@$(BIN)/python benchmarks/planted_signal.py
	@$(BIN)/python benchmarks/evaluation_statistics.py
	@$(BIN)/python benchmarks/live.py
	@$(BIN)/python benchmarks/live_faults.py

nightly: $(VENV)/.dev $(VENV)/.built ## the long runs, and a random search for counterexamples
	@echo "==> Rust property tests, searching with PROPTEST_RNG_SEED=$(SEARCH_SEED)"
	@PROPTEST_RNG_SEED=$(SEARCH_SEED) cargo test --quiet --release --workspace -- --include-ignored
	@echo "==> Long Python tests, and property tests searching at random"
	@$(BIN)/python -m pytest -m "nightly or hypothesis" --hypothesis-profile=search --timeout 3600

all: lint test bench ## what a contributor runs before sending a change

build: $(VENV)/.built ## build the native part in release mode

lock: $(VENV)/.uv ## pin the requirements anew
	@cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --no-header run.in -o run.txt
	@cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --no-header dev.in -c run.txt -o dev.txt
	@cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --no-header demo.in -c dev.txt -o demo.txt

clean: ## remove everything that was built
	@rm -rf $(VENV) target dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "sekai needs Python 3.10 or newer; $(PYTHON) is `$(PYTHON) --version`. Name another: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@command -v cargo >/dev/null || { echo "sekai needs a Rust toolchain (1.88 or newer) and found no cargo on the PATH"; exit 1; }
	@echo "==> Creating $(VENV) with `$(PYTHON) --version`"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

$(VENV)/.run: requirements/run.txt | $(VENV)/.uv
	@echo "==> Installing what the package needs ($<)"
	@$(UV) -r $<
	@touch $@

$(VENV)/.demo: requirements/demo.txt | $(VENV)/.run
	@echo "==> Installing what learning needs ($<): torch is among it, allow a minute or two"
	@$(UV) -r $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt | $(VENV)/.demo
	@echo "==> Installing what the tests need ($<)"
	@$(UV) -r $<
	@touch $@

$(VENV)/.built: $(BUILD_INPUTS) | $(VENV)/.run
	@echo "==> Building the Rust core in release mode (a minute or two the first time)"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --uv --quiet
	@touch $@
