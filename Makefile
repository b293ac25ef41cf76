# Two commands matter: `make run` and `make test`. Both make the environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test check clean

# CLOUD=aws-like: the real EC2 adapter on an AWS on loopback instead of the simulated cloud.
run: $(STAMP) $(if $(filter aws-like,$(CLOUD)),$(VENV)/.installed-aws-like)
	@exec $(BIN)/elastic run $(if $(filter aws-like,$(CLOUD)),--policy policies/aws-like.yaml)

test: $(VENV)/.installed-test
	@$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest -n auto

# The shape of the code: style, types, rooms.
check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; run make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-aws-like: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[aws-like]'
	@touch $@

$(VENV)/.installed-test: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
