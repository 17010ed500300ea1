# Two commands do everything on a fresh machine with python3 and make:
#   make demo   sets up and runs a whole release on made-up people
#   make test   sets up, checks the code and passes the tests
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= demo

# Bytecode is kept, whatever the shell says: a command starts in two thirds of the time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all bench check setup setup-bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group test --group lint -e '.[plots]'
	touch $@

demo: setup
	$(BIN)/confide demo --out $(OUT)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: check
	$(BIN)/python -m pytest -n 2

setup-bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group bench

bench: setup-bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(OUT) .pytest_cache .mypy_cache .ruff_cache .hypothesis
