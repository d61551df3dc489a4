# Two commands: `make demo` and `make test`. Each makes .venv by itself; the second time that costs nothing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
OUT    ?= runs/demo
SEED   ?= 0

.PHONY: help setup demo test test-next lint types format clean

help:
	@echo "make demo               build data, train and evaluate a tiny policy, write $(OUT)/report.html"
	@echo "make demo WORKS=DIR     the same on real works in OpenAlex snapshot layout"
	@echo "make test               lint, types and the test suite"
	@echo "make test-next          the tests that meet the cookbook, with its next release"
	@echo "make setup              only make .venv (both of the above do it for you)"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; a few minutes on a slow network) ..."
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"Python 3.11 or newer is needed, {sys.executable} is {v[0]}.{v[1]}; set PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# torch first and by itself: a looser requirement of another package would pull in a build with CUDA libraries.
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt torch==2.13.0
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt --editable '.[dev]'
	@touch $(STAMP)

demo: setup
	@$(BIN)/scisci-gym demo --out $(OUT) --seed $(SEED) $(if $(WORKS),--works $(WORKS))

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup
	@$(BIN)/basedpyright

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Two at a time: most tests of the engine and the recipes wait for one another's process half of the time.
test: lint types
	@$(BIN)/python -m pytest -n 2 --dist loadfile

# 0.6.1 asks for a package that the index does not have; its code runs without it.
NEXT := build/cookbook-0.6.1
$(NEXT): | setup
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --target $(NEXT) tinker-cookbook==0.6.1

test-next: $(NEXT)
	@PYTHONPATH=$(CURDIR)/$(NEXT) $(BIN)/python -m pytest tests/recipes tests/engine/test_cookbook.py tests/engine/test_stock_recipes.py tests/envs/test_groups.py \
		tests/envs/test_benchmarks.py tests/envs/test_training.py

clean:
	rm -rf $(VENV) build *.egg-info
