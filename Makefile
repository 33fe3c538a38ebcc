# Every target sets up what it needs; what CI calls is what is here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Relative: pip takes a path with a space for two.
export PIP_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo compiled test whole lowest check format fuzz soundness growth-soundness bench peers docs pages site notebooks pictures wheel dist clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Compiled on all cores in the end, but for other packages' tests.
$(READY): export PIP_NO_COMPILE := 1
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "farfield needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version). Set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
ifdef HASHES
	env -u PIP_CONSTRAINT $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r .ci/requirements.txt
	$(BIN)/python -m pip install --quiet torch
	$(BIN)/python -m pip install --quiet --no-deps --editable .
else
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
endif
	@$(BIN)/python -m compileall -q -j 0 -x '/tests?/' $(VENV)/lib >/dev/null 2>&1 || true
	@touch $@

setup: $(READY) ## Make the virtual environment

demo: $(READY) ## Train the papers' models on half-moons, audit and compare them
	$(BIN)/farfield demo --out farfield-demo

# Bytecode is written whatever the environment says: dozens of processes begin with these modules.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal
compiled: $(READY)
	@$(BIN)/python -m compileall -q src

test: compiled ## Run the tests: all but those of whole programs
	$(PYTEST) -m 'not whole'

whole: compiled ## Run whole programs: documentation, notebooks, experiments, the browser, kills, campaigns
	$(PYTEST) -m whole

# What commands do, and what touches other packages most: readers, writers, scores, pages (.ci/core.txt).
lowest: ## Run the core tests with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-lowest
	env -u PIP_CONSTRAINT $(VENV)-lowest/bin/python -m pip install --quiet --requirement .ci/lowest.txt
	env -u PIP_CONSTRAINT $(VENV)-lowest/bin/python -m pip install --quiet --no-deps --editable .
	OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -q -n auto @.ci/core.txt

check: $(READY) ## Run the linters and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

SECONDS ?= 60
fuzz: $(READY) ## Give every reader hostile files; SECONDS=600 SEED=1 say for how long, and which
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

soundness: $(READY) ## Hold certified rays against exact arithmetic; SECONDS, SEED and RAYS likewise
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m campaigns.soundness --seconds $(SECONDS) \
	  $(if $(SEED),--seed $(SEED)) $(if $(RAYS),--rays $(RAYS))

NETWORKS ?= 1000
growth-soundness: $(READY) ## Hold certified series against many digits; NETWORKS=20000 SEED=1 say how many
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m campaigns.growth_soundness --networks $(NETWORKS) \
	  $(if $(SEED),--seed $(SEED))

bench: $(READY) ## Measure; writes benchmarks/results/*.json
	$(BIN)/python -m benchmarks

# Without what the peers ask for: they would bring another PyTorch. Torchvision for CPUs is on PyTorch's own index,
# which PIP_EXTRA_INDEX_URL names. A peer that cannot be had is on the page with the reason.
peers: ## Measure beside other packages, in an environment of their own
	$(PYTHON) -m venv $(VENV)-peers
	$(VENV)-peers/bin/python -m pip install --quiet --editable . torch==2.13.0
	xargs -n 1 env -u PIP_CONSTRAINT $(VENV)-peers/bin/python -m pip install --quiet --no-deps < .ci/peers.txt || true
	OMP_NUM_THREADS=1 $(VENV)-peers/bin/python -m benchmarks peers

docs: pages site ## Write the generated pages of docs/, and build the site: build/docs/index.html

pages: $(READY) ## Write the generated pages of docs/ alone
	$(BIN)/python -m farfield.graph.document docs/rules.md
	$(BIN)/python -m farfield.audit.findings.document docs/findings
	$(BIN)/python -m farfield.cli.document docs/cli.md
	$(BIN)/python -m farfield.reproduce.guard_tables docs/results/guard.json docs/remedies.md

# Strict: a link or a name that leads nowhere is an error.
site: $(READY) ## Build the site alone
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W -n --keep-going -d build/doctrees docs build/docs

notebooks: $(READY) ## Run the notebooks and write what they say into them
	OMP_NUM_THREADS=1 $(BIN)/python tools/run_notebooks.py examples/notebooks/*.ipynb

pictures: $(READY) ## Draw the pictures of README and docs again
	for script in discs one_feature entry_errors; do $(BIN)/python examples/$$script.py docs/images; done
	$(BIN)/farfield demo --out build/demo && cp build/demo/far-field.png docs/images/
	cd docs/images && ../../$(BIN)/python ../../tools/shrink_pictures.py kinds.png one-feature.png entry-errors.png far-field.png

wheel: $(READY) ## Build the wheel that pip installs, into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# Times in archives are those of the last commit, so that everyone builds the same bytes.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
dist: $(READY) ## Build wheel and source archive twice, compare the bytes, check what a registry would show
	rm -rf dist build/again
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(BIN)/python -m hatchling build -d dist
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(BIN)/python -m hatchling build -d build/again
	cd dist && for file in *; do cmp "$$file" "../build/again/$$file" || exit 1; done
	$(PYTHON) -m venv $(VENV)-dist
	env -u PIP_CONSTRAINT $(VENV)-dist/bin/python -m pip install --quiet --no-deps --requirement .ci/dist.txt
	$(VENV)-dist/bin/twine check --strict dist/*
	sha256sum dist/*

clean: ## Remove the environment and everything that was made
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-dist $(VENV)-peers build dist farfield-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
