# SPDX-License-Identifier: Apache-2.0
#
# Every target makes what it needs from python >= 3.11 with venv, make and git.
# Environments live in .envs/ and are made again when what they install changes.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

ENVS := .envs
# An environment is named after its purpose.  Its stamp has a digest of the files that say what it
# holds, so a checkout that only touches these files keeps it.
DIGEST := $(shell cat setup.py setup.cfg pyproject.toml | cksum | cut -d' ' -f1)
DEV := $(ENVS)/dev
DEMO := $(ENVS)/demo
NOVA := $(ENVS)/nova
TEMPEST := $(ENVS)/tempest
MUTMUT := $(ENVS)/mutants
DEPLOYMENT := $(ENVS)/nova-deployment
UV := $(ENVS)/uv
IN_DEV := PATH="$(CURDIR)/$(DEV)/bin:$$PATH"

# Processes for pytest-xdist, and further arguments of pytest.
JOBS ?= auto
PYTEST_ARGS ?=
# Further arguments of the benchmarks: names, --rounds, --results, --quick.
BENCH_ARGS ?=
# How many malformed answers of each kind make fuzz tries.
EXAMPLES ?= 4000
# The steps of make metal, all if empty.
STEPS ?=
# The layouts that make layouts tries, all if empty.
LAYOUTS ?=
# The releases of OpenStack that make releases tries, all if empty, and further arguments.
RELEASE ?=
RELEASES_ARGS ?=
# How many seeds make simulate runs, and from which on, or the one whose history it shows, and
# further arguments.
SEEDS ?= 1000
FIRST ?=
SEED ?=
SIMULATE_ARGS ?=
# How many nodes make any-state has, how many of them with Nova's own driver, further arguments.
TRIPLES ?= 10000
IN_TREE ?= 100
ANY_STATE_ARGS ?=
# Further arguments of make verbs: --states, --verbs, --table.
VERBS_ARGS ?=
# How many orders of upgrades make mixed-versions tries, and the commit of the former version.
ORDERS ?= 200
FORMER ?= HEAD^
# Further arguments of make chaos; its first seed is SEED, too.
CHAOS_ARGS ?=
# The rooms that make mutants mutates, all if empty, and further arguments.
MUTANTS ?=
MUTANTS_ARGS ?=
# The Ironic that the demo and tempest talk to: fake or real.
IRONIC ?= fake

.PHONY: help
help: ## Show this list
	@printf 'Targets:\n'
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) \
	| while IFS=$$'\t' read -r target text; do printf '  %-16s %s\n' "$$target" "$$text"; done
	@printf '\nVariables: PYTHON (an interpreter), JOBS (test processes), PYTEST_ARGS,\n  BENCH_ARGS, EXAMPLES (of fuzz), IRONIC (of demo, tempest), RELEASE.\n'

# $(call copy_of_checkout,DIRECTORY): what git knows of it, as it is here, and git's own part.
# A build leaves metadata next to its sources, which would hide the installed metadata from tests
# that run in the checkout at the same time.
define copy_of_checkout
	@rm -rf $(1)
	@mkdir -p $(1)
	@git ls-files -z | tar -c --null --ignore-failed-read -T - | tar -x --no-same-owner -C $(1)
	@cp -R .git $(1)/.git
endef

.PHONY: demo
demo: $(DEMO)/.made-$(DIGEST) ## Build servers on a fake Ironic; IRONIC=real: a real one; IRONIC=metal: a machine
	$(DEMO)/bin/$(or $(DEMO_ON_$(IRONIC)),ironic-virt demo)

DEMO_ON_real := python -m tools.demo
DEMO_ON_metal := python -m tools.demo_metal

.PHONY: test
test: $(DEV)/.made-$(DIGEST) ## Run the unit and functional tests
	$(DEV)/bin/python -m pytest -n $(JOBS) --dist worksteal tests/unit tests/functional \
		tests/simulation $(PYTEST_ARGS)

.PHONY: simulate
simulate: $(DEV)/.made-$(DIGEST) ## Simulate SEEDS=1000 deployments in storms; SEED=7: replay one
	$(DEV)/bin/python -m tests.simulation --seeds $(SEEDS) $(if $(SEED),--seed $(SEED)) \
		$(if $(FIRST),--first $(FIRST)) $(SIMULATE_ARGS)

.PHONY: simulate-long
simulate-long: $(DEV)/.made-$(DIGEST)
	$(DEV)/bin/python -m tests.simulation --hours 24 --seeds 60 \
		$(if $(FIRST),--first $(FIRST)) $(SIMULATE_ARGS)

.PHONY: chaos
chaos: $(DEV)/.made-$(DIGEST) ## Run services on the real Ironic and MariaDB in a storm of SEED=0
	$(DEV)/bin/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(CHAOS_ARGS)

.PHONY: chaos-disk
chaos-disk: $(DEV)/.made-$(DIGEST)
	$(DEV)/bin/python -m tests.chaos $(if $(SEED),--seed $(SEED)) --database sqlite $(CHAOS_ARGS)

.PHONY: mutants
mutants: $(MUTMUT)/.made-$(DIGEST) ## Put small faults into the code: do tests find them? MUTANTS=sharding
	$(MUTMUT)/bin/python -m tests.mutants $(MUTANTS) $(MUTANTS_ARGS)

.PHONY: fuzz
fuzz: export IRONIC_VIRT_FUZZ_EXAMPLES := $(EXAMPLES)
fuzz: $(DEV)/.made-$(DIGEST) ## Feed malformed answers and files to the decoders, EXAMPLES of each
	$(DEV)/bin/python -m pytest -q -n $(JOBS) --show-capture=no tests/unit/fuzz $(PYTEST_ARGS)

.PHONY: conformance
conformance: $(DEV)/.made-$(DIGEST) ## Ask the fake and the real Ironic the same questions
	$(DEV)/bin/python -m pytest -n 2 -p no:randomly tests/conformance $(PYTEST_ARGS)

.PHONY: tempest
tempest: $(TEMPEST)/.made-$(DIGEST) ## Run OpenStack's own API tests on the fake; IRONIC=real: on a real one
	$(TEMPEST)/bin/python -m tests.tempest --ironic $(IRONIC)

.PHONY: integration
integration: $(DEV)/.made-$(DIGEST) ## Run the tests that need the real Ironic and MariaDB
	$(DEV)/bin/python -m pytest -n 2 --dist loadfile -p no:randomly tests/integration \
		$(PYTEST_ARGS)

.PHONY: databases
databases: $(DEV)/.made-$(DIGEST) ## Run the tests of records and leases on MariaDB, PostgreSQL, Redis, etcd
	IRONIC_VIRT_TEST_DATABASE=mariadb,postgresql \
		$(DEV)/bin/python -m pytest -n 2 tests/functional/compute tests/backends $(PYTEST_ARGS)

.PHONY: nova
nova: $(NOVA)/.made-$(DIGEST) ## Run the driver in the real Nova, and compare it with Nova's own
	$(NOVA)/bin/python -m pytest -n 2 --dist loadfile tests/nova $(PYTEST_ARGS)

.PHONY: any-state
any-state: $(NOVA)/.made-$(DIGEST) ## Take TRIPLES=10000 nodes in any states of Ironic, Nova, Placement to sound ones
	$(NOVA)/bin/python -W ignore -m tests.any_state --triples $(TRIPLES) \
		--in-tree $(IN_TREE) $(if $(SEED),--seed $(SEED)) $(ANY_STATE_ARGS)

.PHONY: any-state-real
any-state-real: ## Take 300 of them over the real Ironic
	$(MAKE) any-state TRIPLES=300 IN_TREE=0 ANY_STATE_ARGS="--real --jobs 1 $(ANY_STATE_ARGS)"

.PHONY: verbs
verbs: $(NOVA)/.made-$(DIGEST) ## Ask each verb of Nova's API of servers in each state, and write the table
	$(NOVA)/bin/python -W ignore -m benchmarks.verbs $(VERBS_ARGS)

.PHONY: verbs-check
verbs-check: $(NOVA)/.made-$(DIGEST) ## See that the table of verbs and states is still true
	$(NOVA)/bin/python -W ignore -m benchmarks.verbs --check $(VERBS_ARGS)

.PHONY: mixed-versions
mixed-versions: $(DEV)/.made-$(DIGEST) ## Upgrade and roll back services in ORDERS=200 orders, from FORMER=HEAD^
	$(DEV)/bin/python -m tools.mixed_versions $(FORMER) --orders $(ORDERS) \
		$(if $(SEED),--seed $(SEED))

.PHONY: nova-deployment
nova-deployment: wheel-in-deployment ## Run the built wheel in a Nova of several processes
	$(DEPLOYMENT)/bin/python -m pytest tests/nova_deployment $(PYTEST_ARGS)

.PHONY: wheel-in-deployment
wheel-in-deployment: $(DEPLOYMENT)/.made-$(DIGEST)
	rm -rf $(DEPLOYMENT)/dist
	$(call copy_of_checkout,$(DEPLOYMENT)/source)
	$(NOVA)/bin/python -m build --wheel --outdir $(DEPLOYMENT)/dist $(DEPLOYMENT)/source >/dev/null
	rm -rf $(DEPLOYMENT)/source
	$(PIP_FOR_DEPLOYMENT) --force-reinstall $(DEPLOYMENT)/dist/*.whl

.PHONY: releases
releases: $(UV)/.made-$(DIGEST) ## Run our wheel in each release of OpenStack; RELEASE=2025.1: in that one
	$(UV)/bin/python -m tests.releases $(RELEASE) $(RELEASES_ARGS)

.PHONY: canary
canary: $(UV)/.made-$(DIGEST) ## Run our wheel with the newest pre-releases of Nova, Ironic and the rest
	$(UV)/bin/python -m tests.releases canary $(RELEASES_ARGS)

.PHONY: floors
floors: $(UV)/.made-$(DIGEST) ## Run the tests with the oldest dependencies that are allowed
	$(UV)/bin/uv venv -q --allow-existing --python "$(PYTHON)" $(ENVS)/floors
	$(UV)/bin/uv pip install -q --python $(ENVS)/floors --resolution lowest-direct -e '.[test]'
	@rm -rf *.egg-info
	$(UV)/bin/uv pip check --python $(ENVS)/floors
	$(ENVS)/floors/bin/python -m pytest -n $(JOBS) --dist worksteal tests/unit tests/functional \
		$(PYTEST_ARGS)

# The versions of Python that make pythons looks for.
PYTHONS := 3.11 3.12 3.13 3.14
# All Pythons that pyenv has: its shims run only the chosen ones.
WITH_PYENV = PATH="$$(printf '%s:' "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/*/bin)$$PATH"

.PHONY: pythons
pythons: $(UV)/.made-$(DIGEST) ## Run the unit tests with each Python that is there
	@set -e; for version in $(PYTHONS); do \
		$(WITH_PYENV) $(UV)/bin/uv venv -q --allow-existing --python $$version $(ENVS)/python$$version \
			|| { echo "Python $$version: not found, not tested"; continue; }; \
		$(UV)/bin/uv pip install -q --python $(ENVS)/python$$version -e '.[test]'; \
		rm -rf *.egg-info; \
		$(ENVS)/python$$version/bin/python -m pytest -q -n $(JOBS) tests/unit $(PYTEST_ARGS); \
	done

.PHONY: nightly
nightly: export IRONIC_VIRT_TEST_DEPTH := nightly
# Other seeds each night; what is found names its own.
nightly: export FIRST := $(shell expr $$(date +%s) / 86400 \* 1000)
nightly: ## Run every lane whole, with long histories and all databases: hours
	$(MAKE) --keep-going lint docs pictures-check test fuzz simulate simulate-long chaos chaos-disk \
		databases conformance tempest integration nova any-state any-state-real verbs-check \
		mixed-versions nova-deployment dist-check floors pythons releases metal metal-night

# Files to spell-check. tests/ contains deliberate misspellings.
SPELLED := *.rst *.md doc/source etc releasenotes/notes ironic_virt

.PHONY: lint
lint: $(DEV)/.made-$(DIGEST) ## Check style, types and which room imports which
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy
	$(DEV)/bin/codespell $(SPELLED)
	$(DEV)/bin/lint-imports --no-logo
	$(DEV)/bin/python tools/house.py
	$(DEV)/bin/python tools/words.py

.PHONY: words
words: $(DEV)/.made-$(DIGEST) ## Count the words that make a reader stop, and fail over their maximum
	$(DEV)/bin/python tools/words.py

.PHONY: house
house: $(DEV)/.made-$(DIGEST) ## Show how large the rooms are, and fail over their budgets
	$(DEV)/bin/python tools/house.py

.PHONY: format
format: $(DEV)/.made-$(DIGEST) ## Let ruff fix what it can
	$(DEV)/bin/ruff check --fix .
	$(DEV)/bin/ruff format .

.PHONY: docs
docs: $(DEV)/.made-$(DIGEST) ## Build the documentation into doc/build/html
	$(IN_DEV) sphinx-build -E -W --keep-going -q -b html -d doc/build/doctrees doc/source doc/build/html
	@echo "The documentation is in doc/build/html/index.html"

.PHONY: pictures
pictures: $(DEV)/.made-$(DIGEST) ## Draw what the demo and some commands show into the documentation
	$(DEV)/bin/python tools/pictures.py

.PHONY: picture-metal
picture-metal: $(DEV)/.made-$(DIGEST) ## Draw what the demo shows on a machine; root
	$(DEV)/bin/python tools/pictures.py --metal

.PHONY: pictures-check
pictures-check: $(DEV)/.made-$(DIGEST) ## See that the pictures show what the commands print today
	$(DEV)/bin/python tools/pictures.py --check

.PHONY: sample
sample: $(DEV)/.made-$(DIGEST) ## Write the sample configuration file from the options
	$(DEV)/bin/oslo-config-generator --config-file etc/oslo-config-generator/ironic-virt.conf

.PHONY: bench
bench: $(NOVA)/.made-$(DIGEST) $(UV)/.made-$(DIGEST) ## Measure against Nova's in-tree driver
	$(NOVA)/bin/python -m benchmarks --table $(BENCH_ARGS)

# An environment with the tools that build and list the package, and little else.
DIST := $(ENVS)/dist

$(DIST)/.made-$(DIGEST):
	$(call environment,dist)

.PHONY: dist
dist: $(DIST)/.made-$(DIGEST) ## Build sdist, wheel and bill of materials into dist/
	rm -rf dist
	$(call copy_of_checkout,$(ENVS)/source)
	$(DIST)/bin/python -m build --outdir dist $(ENVS)/source
	rm -rf $(ENVS)/source $(ENVS)/wheel
	"$(PYTHON)" -m venv --without-pip $(ENVS)/wheel
	$(PIP_FOR_WHEEL) --no-index --find-links dist --no-deps ironic-virt
	$(PIP_FOR_WHEEL) ironic-virt
	$(DIST)/bin/cyclonedx-py environment --output-reproducible $(ENVS)/wheel/bin/python \
		--output-file "$$(echo dist/*.tar.gz | sed 's/[.]tar[.]gz$$/.cdx.json/')"

.PHONY: deb
deb: dist ## Build a package for Debian into dist/, for a host whose Nova is Debian's
	$(DIST)/bin/python tools/deb.py dist/*.whl dist

.PHONY: metal
metal: $(DEV)/.made-$(DIGEST) ## Deploy a QEMU machine with the real Ironic and agent; STEPS="enroll create"; root
	$(DEV)/bin/python -m tests.metal $(STEPS)

.PHONY: metal-night
metal-night: wheel-in-deployment ## Deploy two machines, one by UEFI, then by Nova; STEPS="enroll uefi"; root
	$(DEPLOYMENT)/bin/python -m tests.metal --night $(STEPS)

.PHONY: layouts
layouts: $(DEV)/.made-$(DIGEST) deb ## Boot a server with Nova and the driver installed in five ways; root
	$(DEV)/bin/python -m tests.layouts --wheel dist/*.whl --deb dist/*.deb $(LAYOUTS)

.PHONY: dist-check
dist-check: dist ## Check the package's page, run the wheel in an empty environment, check the bill
	$(DIST)/bin/twine check --strict dist/*.tar.gz dist/*.whl
	$(DIST)/bin/python -m pip --python $(ENVS)/wheel/bin/python check
	$(DIST)/bin/python .ci/check_sbom.py dist/*.cdx.json $(ENVS)/wheel/bin/python
	cd $(ENVS)/wheel && bin/ironic-virt --version && bin/ironic-virt --help >/dev/null
	rm -rf $(ENVS)/wheel

# Installs into the empty environment by pip of the environment dist, so that everything listed
# there came with the wheel.  It takes the wheel from a directory: of a file the path is listed.
PIP_FOR_WHEEL = $(DIST)/bin/python -m pip --python $(ENVS)/wheel/bin/python install \
	-qq --disable-pip-version-check

.PHONY: clean
clean: ## Remove environments, caches and everything that was built
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

# $(call environment,EXTRAS): the recipe of a stamp: the directory next to it
# becomes an environment in which this checkout is installed editable, so that
# entry points exist and an edited module needs no new installation.  The build
# leaves metadata here that would hide the installed one from tests: it is removed.
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

$(TEMPEST)/.made-$(DIGEST):
	$(call environment,tempest)

$(MUTMUT)/.made-$(DIGEST):
	$(call environment,mutants)

$(DEMO)/.made-$(DIGEST):
	$(call environment,demo)

$(UV)/.made-$(DIGEST):
	$(call environment,releases)

# The environment of the tests with Nova and of the benchmarks.
$(NOVA)/.made-$(DIGEST):
	$(call environment,bench)

# Nova's programs; their dependencies come from the environment above.  Our wheel is installed
# here, as in an operator's environment.
PIP_FOR_DEPLOYMENT = $(NOVA)/bin/python -m pip --python $(DEPLOYMENT)/bin/python install \
	-qq --disable-pip-version-check --no-deps

$(DEPLOYMENT)/.made-$(DIGEST): $(NOVA)/.made-$(DIGEST)
	@echo "Making $(@D) ..."
	@rm -rf $(@D)
	@$(NOVA)/bin/python -m venv --without-pip $(@D)
	@$(PIP_FOR_DEPLOYMENT) $$($(NOVA)/bin/python -m pip freeze --disable-pip-version-check \
		| grep -E '^(nova|openstack-placement)==')
	@site=$$($(NOVA)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	&& own=$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	&& echo "$$site" >"$$own/nova-environment.pth"
	@touch $@
