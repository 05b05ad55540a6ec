# `make demo` and `make test` are all a newcomer needs: both set up what they use in .venv, once.
PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,$(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEER := .venv-hta
FRAMEWORKS := .venv-integrations
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo test test-integrations fuzz lint bench bench-quick bench-hta package clean

help:
	@echo "make demo       train a small model on 4 CPU ranks, one of them slow, and report it (demo/report.html)"
	@echo "make test       lint, types, import contracts and all tests"
	@echo "make test-integrations  the hooks into Trainer, Lightning, Accelerate and loggers, against the real packages"
	@echo "make fuzz       2,000 damaged files instead of the 300 of make test; needs about ten minutes"
	@echo "make lint       the first three only"
	@echo "make bench      load and analysis benchmarks, against HTA; needs about three hours and 5 GB of disk"
	@echo "make package    build wheel and sdist, install the wheel elsewhere and run its demo"
	@echo "make clean      remove all that the other targets made"

# rebuilt when pyproject.toml changes; code needs no reinstall
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "rankscope needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip
	$(BIN)/python -m pip install -qq -e '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/rankscope demo --train -o demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest

# the frameworks bring a gigabyte along; they stay apart from ours
test-integrations: $(FRAMEWORKS)/.ready
	$(FRAMEWORKS)/bin/python -m pytest -rs tests/collector/integrations

$(FRAMEWORKS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install -qq -e '.[dev,integrations]'
	@touch $@

fuzz: $(READY)
	RANKSCOPE_FUZZ=2000 $(BIN)/python -m pytest tests/fuzz

bench: $(READY) bench-hta
	$(BIN)/python benchmarks/load.py --hta-python $(PEER)/bin/python
	$(BIN)/python benchmarks/analysis.py
	$(BIN)/python benchmarks/clock.py
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/collector.py
	$(BIN)/python benchmarks/windows.py
	$(BIN)/python benchmarks/hidden_rank.py
	$(BIN)/python benchmarks/trainer_faults.py
	$(BIN)/python benchmarks/pulse.py
	$(BIN)/python benchmarks/series.py

bench-quick: $(READY)
	$(BIN)/python benchmarks/load.py --quick
	$(BIN)/python benchmarks/analysis.py --quick
	$(BIN)/python benchmarks/clock.py --quick
	$(BIN)/python benchmarks/accuracy.py --tuning --quick
	$(BIN)/python benchmarks/collector.py --quick

# HTA brings its own, large set of packages; it stays apart from ours
bench-hta: $(PEER)/.ready

$(PEER)/.ready:
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install -qq 'traceinsight>=0.6.1' torch
	@touch $@

package: $(READY)
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/fresh
	build/fresh/bin/python -m pip install -qq dist/*.whl
	cd build && fresh/bin/rankscope demo -o demo

clean:
	rm -rf $(VENV) $(PEER) $(FRAMEWORKS) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
