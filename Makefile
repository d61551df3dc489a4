# Two commands: `make demo` and `make test`. Each makes .venv by itself; the second time that costs nothing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
OUT    ?= runs/demo
SEED   ?= 0

.PHONY: help setup demo test test-slow test-extras test-all test-next lint types format clean

help:
	@echo "make demo               build data, train and evaluate a tiny policy, write $(OUT)/report.html"
	@echo "make demo WORKS=DIR     the same on real works in OpenAlex snapshot layout"
	@echo "make demo MODEL=smollm2 the same with a real language model, or the folder of one: over an hour on two cores"
	@echo "make test               lint, types and the quick tests: under 5 minutes on two cores"
	@echo "make test-all           that, then the slow tests and those of the optional packages: under 25 minutes"
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
	@$(BIN)/scisci-gym demo --out $(OUT) --seed $(SEED) $(if $(WORKS),--works $(WORKS)) $(if $(MODEL),--model $(MODEL))

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@# import-linter tells modules by the names of folders, and the root must be called as the package is.
	@mkdir -p build/lint && ln -sfn ../.. build/lint/scisci_gym
	@PYTHONPATH=build/lint $(BIN)/lint-imports --no-cache --no-logo

types: setup
	@$(BIN)/basedpyright

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Two at a time: most tests of the engine and the recipes wait for one another's process half of the time. Each worker
# takes half of the list in order, so that an engine process, a model or a dataset that tests share is made once, and
# whoever is done first takes over from the other. The types are checked meanwhile.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
test: lint
	@mkdir -p build
	@$(BIN)/basedpyright > build/types.log 2>&1 & types=$$!; \
	$(PYTEST) -m "not slow"; tests=$$?; \
	wait $$types; checked=$$?; cat build/types.log; exit $$((tests || checked))

# Also every property with many examples, and new ones each time (in CI the same ones).
test-slow: setup
	@$(PYTEST) -m "slow or hypothesis" --hypothesis-profile=thorough

# The optional packages ask for older versions of some of ours, so they live in an environment that lies over $(VENV).
# Every version is named in tests/extras.txt: resolving them anew takes pip minutes and finds nothing.
EXTRAS := build/extras
# Ray goes first: in a process that was connected to another cluster before, it cannot fetch objects from a second node.
WITH_EXTRAS := tests/datasets/labels/test_ray.py tests/test_oldest_python.py tests/datasets/openalex/test_snapshot.py \
	tests/engine/compute/test_dora.py tests/envs/integrations tests/evaluation/test_inspect_tasks.py tests/test_doctests.py
$(EXTRAS)/.installed: tests/extras.txt | setup
	@$(PYTHON) -m venv --clear --without-pip $(EXTRAS)
	@$(BIN)/python -m pip --python $(EXTRAS)/bin/python install -qq --disable-pip-version-check --no-deps -r tests/extras.txt \
		|| { echo "The optional packages are not tested: they could not be installed, see above."; exit 75; }
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> "$$($(EXTRAS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
	@touch $@

test-extras: setup
	@$(MAKE) -s $(EXTRAS)/.installed; made=$$?; \
	if [ $$made = 0 ]; then $(EXTRAS)/bin/python -m pytest --extras $(WITH_EXTRAS); \
	elif [ -n "$$CI" ]; then exit $$made; fi

# One after the other: the slow tests are not started when a quick one fails.
test-all: test
	@$(MAKE) -s test-slow
	@$(MAKE) -s test-extras

# 0.6.1 asks for a package that the index does not have; its code runs without it.
NEXT := build/cookbook-0.6.1
$(NEXT): | setup
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --target $(NEXT) tinker-cookbook==0.6.1

test-next: $(NEXT)
	@PYTHONPATH=$(CURDIR)/$(NEXT) $(BIN)/python -m pytest tests/recipes tests/engine/serve/test_cookbook.py tests/engine/serve/test_stock_recipes.py \
		tests/envs/training tests/envs/integrations/test_cookbook_benchmarks.py

clean:
	rm -rf $(VENV) build *.egg-info
