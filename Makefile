# Two commands do everything on a fresh machine with python3 and make:
#   make demo   sets up and runs a whole release on made-up people
#   make test   sets up, checks the code and passes the tests
# While working: make quick (a minute), make fix (style). Before a release: make test-all.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= demo
PIP    := -m pip install --quiet --disable-pip-version-check
# The lowest versions that pyproject.toml allows, and the newest that there are, each in an environment of its own.
MINIMUM ?= .venv-minimum
NEWEST  ?= .venv-newest

QUICK := not slow and not costly and not statistical and not process

# Bytecode is kept, whatever the shell says: a command starts in two thirds of the time.
export PYTHONDONTWRITEBYTECODE :=

# Temporary folders in memory, where there is room for them: tests make files by the thousand.
IN_MEMORY := $(shell [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }')" -gt 4000000 ] 2>/dev/null && echo /dev/shm)
test quick suite coverage times: export TMPDIR := $(or $(TMPDIR),$(IN_MEMORY),/tmp)

# Two processes of tests on two processors: threads of linear algebra beside them would only wait for each other.
test quick suite times coverage audit-tests: export OPENBLAS_NUM_THREADS := 1
test quick suite times coverage audit-tests: export OMP_NUM_THREADS := 1

.PHONY: demo screenshots quick test beside suite audit-tests test-all planted walks doctest times test-minimum test-newest man coverage bench check style types layers fix setup setup-spark setup-bench lock sbom pins clean

setup: $(VENV)/.ready

# With LOCKED=1, as in CI, only files whose hashes are in locks/ are installed.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
ifdef LOCKED
	$(BIN)/python $(PIP) --require-hashes -r locks/develop.txt
	$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
else
	$(BIN)/python $(PIP) --upgrade -c constraints.txt pip
	$(BIN)/python $(PIP) -c constraints.txt --group test --group lint -e '.[plots,studio]'
endif
	$(BIN)/python -m compileall -q src/confide  # a start translates no source, also where Python may write no bytecode
	touch $@

demo: setup
	$(BIN)/confide demo --out $(OUT)

check: style types layers

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

fix: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

quick: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -q -n 2 -m "$(QUICK)"

# Style first, as it takes a moment. Types, layers and the examples of docstrings are looked at beside the tests, which
# leave some time of two processors: some wait for commands or a browser.
test: setup
	$(MAKE) style
	$(MAKE) --jobs=2 beside suite

beside: setup
	$(MAKE) --jobs=1 types layers doctest

suite: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --durations=20

# The examples in docstrings.
doctest: setup
	$(BIN)/python -m pytest -q --doctest-modules src/confide

test-all: check coverage
	$(BIN)/python -m pytest -n 2 -m "slow"
	$(BIN)/python -m tests.planted

# The planted bugs of tests/planted, one by one in copies of the project: every one of them must be noticed.
# One alone: make planted BUG=tables-scale-three-percent-small
planted: setup
	$(BIN)/python -m tests.planted $(BUG)

# The tests that look between the parts, for every mechanism: byte replay of neighbours, small parts, order, two rooms
# with one fact, scripts. Prints a table, and fails if one of them does.
audit-tests: setup
	$(BIN)/python -m tests.contract

# The tests of make test once more, with more random cases and under a tracer, with the floor of pyproject.toml.
coverage: setup
	$(BIN)/python -m pytest -q -n 2 -m "not slow" --hypothesis-profile=thorough --cov --cov-report=term:skip-covered

# Measures every test and writes down which ones make quick leaves out.
times: setup
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow" --stopwatch

# The demonstration and the light tests, with the lowest versions and with the newest.
test-minimum: $(MINIMUM)/.ready
	$(call demonstrate,$(MINIMUM))
	$(MINIMUM)/bin/python -m pytest -q -n 2 -m "$(QUICK)"

test-newest: $(NEWEST)/.ready
	$(call demonstrate,$(NEWEST))
	$(NEWEST)/bin/python -m pytest -q -n 2 -m "$(QUICK)"

define demonstrate
	folder=$$(mktemp -d) && $(1)/bin/confide demo --persons 3000 --out $$folder/demo && rm -rf $$folder
endef

$(MINIMUM)/.ready: pyproject.toml constraints-minimum.txt
	$(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/bin/python $(PIP) --upgrade -c constraints.txt pip
	$(MINIMUM)/bin/python $(PIP) -c constraints-minimum.txt --group test -e '.[plots,studio]'
	touch $@

# Made anew each time: what is newest changes without a file of ours.
$(NEWEST)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python $(PIP) --upgrade pip
	$(NEWEST)/bin/python $(PIP) --upgrade --group test -e '.[plots,studio]'
	touch $@

# Pages for `man confide` and its commands, from the commands themselves.
man: setup
	$(BIN)/python tools/man_pages.py man

# The walks of docs/walks: what `confide run` enters on its way to the sealed folder, and the modules between the first
# record and the seal, from the examples of the contract.
walks: setup
	for mechanism in $(notdir $(wildcard tests/contract/examples/*)); do \
		$(BIN)/python -m confide.walk tests/contract/examples/$$mechanism/spec.toml --page > docs/walks/$$mechanism.md; \
	done
	$(BIN)/python -m confide.walk tests/contract/examples/*/spec.toml --trusted --page > docs/walks/trusted-base.md

# The pictures of docs/studio.md, in Chromium.
screenshots: setup
	$(BIN)/python -m tests.kits.screenshots

# The engine on Spark, for make test-all; Java 17 or 21 must be there.
setup-spark: setup
	$(BIN)/python $(PIP) --require-hashes -r locks/spark.txt

# The locks of locks/, from constraints.txt and pyproject.toml, with the hashes of the index.
lock: setup
	$(BIN)/python tools/supply_chain.py lock

# What the image is made of, as CycloneDX.
sbom:
	$(PYTHON) tools/supply_chain.py sbom > sbom.json
	@echo sbom.json

# The digests of today of the base image and of the actions, written into Dockerfile and workflows.
pins:
	$(PYTHON) tools/supply_chain.py pins

setup-bench: setup
	$(BIN)/python $(PIP) -c constraints.txt --group bench

bench: setup-bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(MINIMUM) $(NEWEST) $(OUT) man .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage sbom.json
