# SPDX-License-Identifier: Apache-2.0
#
# Every target makes what it needs from python >= 3.11 with venv, make and git.
# Environments live in .envs/ and are made anew when what they install changes.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

ENVS := .envs
# An environment is named after its extras and stamped with a digest of the
# files that say what it holds: a checkout that only touches them keeps it.
DIGEST := $(shell cat setup.py setup.cfg pyproject.toml | cksum | cut -d' ' -f1)
DEV := $(ENVS)/dev
DEMO := $(ENVS)/demo
BENCH := $(ENVS)/bench
IN_DEV := PATH="$(CURDIR)/$(DEV)/bin:$$PATH"

# Processes for pytest-xdist, and what else to hand to pytest.
JOBS ?= auto
PYTEST_ARGS ?=
# The Ironic that the demo talks to: fake or real.
IRONIC ?= fake

.PHONY: help
help: ## Show this list
	@printf 'Targets:\n'
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) \
	| while IFS=$$'\t' read -r target text; do printf '  %-14s %s\n' "$$target" "$$text"; done
	@printf '\nVariables: PYTHON (an interpreter), JOBS (test processes), PYTEST_ARGS, IRONIC (of demo).\n'

.PHONY: demo
demo: $(DEMO)/.made-$(DIGEST) ## Deploy three instances on a fake Ironic; IRONIC=real: on a real one
	$(DEMO)/bin/ironic-virt demo$(if $(filter-out fake,$(IRONIC)), --ironic $(IRONIC))

.PHONY: test
test: $(DEV)/.made-$(DIGEST) ## Run the unit and functional tests
	$(DEV)/bin/python -m pytest -n $(JOBS) tests/unit tests/functional $(PYTEST_ARGS)

.PHONY: conformance
conformance: $(DEV)/.made-$(DIGEST) ## Ask the fake and the real Ironic the same questions
	$(DEV)/bin/python -m pytest -n 2 tests/conformance $(PYTEST_ARGS)

.PHONY: integration
integration: $(DEV)/.made-$(DIGEST) ## Run the tests that need the real Ironic and MariaDB
	$(DEV)/bin/python -m pytest tests/integration $(PYTEST_ARGS)

.PHONY: lint
lint: $(DEV)/.made-$(DIGEST) ## Check style, types and which room imports which
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy
	$(DEV)/bin/lint-imports --no-logo

.PHONY: format
format: $(DEV)/.made-$(DIGEST) ## Let ruff mend what it can
	$(DEV)/bin/ruff check --fix .
	$(DEV)/bin/ruff format .

.PHONY: docs
docs: $(DEV)/.made-$(DIGEST) ## Build the documentation into doc/build/html
	$(IN_DEV) sphinx-build -E -W --keep-going -q -b html -d doc/build/doctrees doc/source doc/build/html
	@echo "The documentation is in doc/build/html/index.html"

.PHONY: sample
sample: $(DEV)/.made-$(DIGEST) ## Write the sample configuration file from the options
	$(DEV)/bin/oslo-config-generator --config-file etc/oslo-config-generator/ironic-virt.conf

.PHONY: bench
bench: $(BENCH)/.made-$(DIGEST) ## Measure against Nova's in-tree driver
	$(BENCH)/bin/python -m benchmarks

.PHONY: dist
dist: $(DEV)/.made-$(DIGEST) ## Build the sdist and the wheel into dist/
	rm -rf dist build
	$(DEV)/bin/python -m build
	rm -rf build *.egg-info

.PHONY: dist-check
dist-check: dist ## Install the wheel in an empty environment and run it there
	rm -rf $(ENVS)/wheel
	"$(PYTHON)" -m venv $(ENVS)/wheel
	$(ENVS)/wheel/bin/python -m pip install -qq --disable-pip-version-check dist/*.whl
	$(ENVS)/wheel/bin/python -m pip check
	cd $(ENVS)/wheel && bin/ironic-virt --version && bin/ironic-virt --help >/dev/null
	rm -rf $(ENVS)/wheel

.PHONY: clean
clean: ## Remove environments, caches and whatever was built
	rm -rf $(ENVS) build dist doc/build *.egg-info .eggs .coverage cover htmlcov
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .tox
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first interpreter that runs, is new enough and can make environments.
# Running it is the test: a version manager's shim may exist and still fail.
ifndef PYTHON
PYTHON := $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
		>/dev/null 2>&1; then command -v "$$python"; break; fi; done)
endif

# $(call environment,EXTRAS): the recipe of a stamp: the directory beside it
# becomes an environment in which this checkout is installed editable, so that
# entry points exist and an edited module needs no new installation.  What a
# build leaves here would hide the installed metadata from tests: it goes.
define environment
	@if [ -z "$(PYTHON)" ]; then \
		echo "make: found no python >= 3.11 that can make virtual environments." >&2; \
		echo "make: install one (Debian: python3 and python3-venv), or: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi
	@echo "Making $(@D) with $(PYTHON) ..."
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "make: $(PYTHON) does not run, or is older than 3.11" >&2; exit 1; }
	@rm -rf $(@D)
	@"$(PYTHON)" -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check -e '.[$(1)]'
	@rm -rf *.egg-info
	@touch $@
endef

$(DEV)/.made-$(DIGEST):
	$(call environment,$(strip test,lint,docs))

$(DEMO)/.made-$(DIGEST):
	$(call environment,demo)

$(BENCH)/.made-$(DIGEST):
	$(call environment,bench)
