# make run     install into .venv and run the default simulation
# make test    run the tests
# make check   lint, types and tests: what must hold before a change goes in
# make clean   remove everything that make and its tools have written, but not runs/

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet -c constraints.txt

.PHONY: run test check clean

run: .venv/installed
	$(BIN)/fedgraph-sim run

test: .venv/installed-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(INSTALL) -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
	find fedgraph_sim tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
