# Every target makes what it needs: a fresh clone with Python 3.11 and make is enough.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first interpreter that is 3.11 or newer and can make virtual environments.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done)
# The newest other one, from the PATH or pyenv; nothing where there is none.
NEWEST ?= $(shell for minor in 13 12; do \
	for python in python3.$$minor "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.$$minor.*/bin/python; do \
	"$$python" -c 'import venv, ensurepip' 2>/dev/null && ! cmp -s <("$$python" -V) <($(PYTHON) -V) \
	&& echo "$$python" && exit; done; done)
# Compiled once and kept, whatever the environment says: tests start hundreds of processes, which all import the package.
export PYTHONDONTWRITEBYTECODE :=
# Python compiles what it imports, once; to compile all that is installed would take as long as to install it.
PIP_INSTALL = -m pip -qq --disable-pip-version-check install --no-compile
# Tests wait as much as they work, for processes and databases: two workers a core, each with a PostgreSQL of its own.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
PYTEST = -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal
# What a tier leaves out that runs the same tests again, for it cannot change how they end (docs/decisions/0048-tiers.md):
# - with other versions: rooms whose lines of their own call no library, or none that another room does not. On PostgreSQL,
#   what runs on SQLite too; with other libraries, among which is its driver, not so the store.
OTHER_LIBRARIES = tests/store tests/eventlog tests/query tests/server tests/cookbook tests/collect \
	tests/cli/test_verbs.py tests/cli/test_export.py tests/ingest/test_daemon.py -k "not postgresql or store"
OTHER_PYTHON = tests/store tests/eventlog tests/query tests/server tests/cookbook tests/collect tests/ingest \
	tests/cli/test_verbs.py tests/operations/test_backup.py -k "not postgresql"
# - without the fast path: what asks for no more than what is in the database, whichever path brought it there, or which one.
DECODING = tests/eventlog tests/ingest tests/operations/test_verify.py tests/operations/test_reread.py \
	tests/query/test_expected_answers.py -k "not postgresql"
# - with partitions, which PostgreSQL alone has: what reads and writes samples only through rooms that are run here.
STORED = tests/store tests/ingest tests/operations tests/query -k "postgres"

# ---- For everyone -----------------------------------------------------------------------------------------------

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: .venv/package ## Ingest a few real jobs and look at them
	@.venv/bin/python examples/demo.py

.PHONY: serve
serve: page ## Serve the example jobs at http://127.0.0.1:8080 (ARGS="--port 0" for another port)
	@mkdir -p build/serve
	.venv/bin/lineage-store --database sqlite:///build/serve/store.db serve examples/summary_base $(ARGS)

.PHONY: test
test: .venv/package ## Run the tests on SQLite and PostgreSQL (ARGS="-k words" for some of them)
	.venv/bin/python $(PYTEST) $(ARGS)

# ---- For developers ---------------------------------------------------------------------------------------------

.PHONY: venv
venv: .venv/package ## Make or renew .venv

.PHONY: environments
environments: .venv/package .venv-lowest/package .venv-protobuf6/package .venv-clients/package .venv-mindspore/requirements .venv-mindinsight/requirements ## Make what the tiers need

.PHONY: check
check: .venv/package ## Lint, formatting and types
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy lineage_store tests tools benchmarks

.PHONY: changed
changed: .venv/package ## Run what your change since main can touch, and say what was left out (ARGS="BASE" for another base)
	@.venv/bin/python tools/changed_rooms.py $(ARGS)

.PHONY: test-slow
test-slow: .venv/package ## Run the tests that take seconds each
	.venv/bin/python $(PYTEST) -m slow $(ARGS)

.PHONY: test-first-run
test-first-run: .venv/package ## Run some on PostgreSQL as on a machine that has never run them (as root)
	tools/first_run.sh -n 4 --dist load tests/store/test_schema.py tests/store/test_views.py -k postgresql $(ARGS)

.PHONY: test-lowest
test-lowest: .venv-lowest/package ## Run what calls libraries with the lowest versions that pyproject.toml allows
	.venv-lowest/bin/python $(PYTEST) $(OTHER_LIBRARIES) $(ARGS)

.PHONY: test-newest
test-newest: ## Run what a Python can change on the newest that is here, 3.13 or 3.12
	@newest="$(NEWEST)"; \
	if [[ -z $$newest ]]; then echo "make test-newest: skipped, no Python 3.12 or 3.13 is here beside $$($(PYTHON) -V)"; exit; fi; \
	$(MAKE) .venv-newest/package PYTHON="$$newest" && set -x && .venv-newest/bin/python $(PYTEST) $(OTHER_PYTHON) $(ARGS)

.PHONY: test-plain
test-plain: .venv/package ## Decode and ingest with the fast path of decoding switched off
	LINEAGE_STORE_LIMITS=vectorised=false .venv/bin/python $(PYTEST) $(DECODING) $(ARGS)

.PHONY: test-partitioned
test-partitioned: .venv/package ## Run what uses PostgreSQL on stores whose samples are partitioned by a few jobs
	LINEAGE_STORE_TEST_PARTITIONED=2 .venv/bin/python $(PYTEST) $(STORED) $(ARGS)

.PHONY: test-protobuf
test-protobuf: .venv-protobuf6/package ## Decode log files with protobuf 6 (5 and 7 are the lowest and the newest)
	.venv-protobuf6/bin/python $(PYTEST) tests/eventlog $(ARGS)

.PHONY: test-mindspore
test-mindspore: .venv-mindspore/requirements .venv-mindinsight/requirements .venv/package ## Train with MindSpore, ingest with the built wheel, compare
	@rm -rf build/wheel
	.venv/bin/python -m hatchling build -t wheel -d build/wheel
	.venv-mindspore/bin/python $(PIP_INSTALL) --no-deps --no-index --force-reinstall build/wheel/*.whl
	.venv-mindspore/bin/pytest tests/with_mindspore -m mindspore $(ARGS)
	.venv/bin/python -m pytest tests/server -m mindinsight $(ARGS)

.PHONY: test-clients
test-clients: .venv-clients/package ## Ask the cookbook's questions with analysts' clients: DuckDB, Datasette, pandas and others
	.venv-clients/bin/python $(PYTEST) tests/cookbook -m clients $(ARGS)

.PHONY: page
page: .venv/package ## Build the page in web/ for the server (needs npm, or brings it)
	@.venv/bin/python tools/build_page.py

.PHONY: test-page
test-page: page ## Lint and test the page: its pure parts, then all of it in a browser
	@.venv/bin/python tools/build_page.py check test
	.venv/bin/python $(PYTEST) tests/page -m page $(ARGS)

.PHONY: pictures
pictures: page ## Take the pictures of the page anew that README shows
	.venv/bin/python tools/pictures.py

.PHONY: prove
prove: .venv/package ## Attack every promise, in ten minutes (P="kill torn" for some, N= the size, SEED= as printed, QUICK=yes for a tenth)
	PYTHONPATH=tests .venv/bin/python -m proofs $(P) $(if $(N),-n $(N)) $(if $(SEED),--seed $(SEED)) $(if $(QUICK),--quick)

.PHONY: prove-full
prove-full: .venv/package ## The same at the size of a night
	PYTHONPATH=tests .venv/bin/python -m proofs $(P) --full $(if $(SEED),--seed $(SEED))

.PHONY: bench
bench: .venv/package $(if $(filter page browser%,$(ARGS)),page .venv-tensorboard/requirements) ## Time ourselves against baselines (ARGS="c1 c6" for some rows, page in a browser, --list names them, --quick, --long)
	.venv/bin/python -m benchmarks $(ARGS)

.PHONY: bench-peers
bench-peers: .venv/package .venv-mindinsight/requirements .venv-mlflow/requirements .venv-mindspore/requirements ## The same against MindInsight, MLflow and MindSpore
	.venv/bin/python -m benchmarks --peers $(ARGS)

.PHONY: proto
proto: .venv/package ## Rebuild the wire messages from proto/
	.venv/bin/python tools/build_proto.py

.PHONY: docs
docs: .venv/package ## Rebuild docs/schema.md and config/datasette.json from the schema, the list of findings in docs/faults.md and the names in docs/python.md
	.venv/bin/python tools/schema_docs.py
	.venv/bin/python tools/finding_docs.py
	.venv/bin/python tools/api_docs.py
	.venv/bin/python tools/datasette_metadata.py

.PHONY: lock
lock: ## Renew the locked requirements from pyproject.toml and requirements/*.in
	@test -x .venv-lock/bin/uv || { $(PYTHON) -m venv .venv-lock && .venv-lock/bin/python $(PIP_INSTALL) uv==0.13.9; }
	$(LOCK) --all-extras requirements/dev.in -o requirements/dev.txt
	$(LOCK) --all-extras --resolution lowest-direct requirements/test.in -o requirements/lowest.txt
	$(LOCK) --extra postgresql requirements/protobuf6.in -o requirements/protobuf6.txt
	$(LOCK) --extra postgresql --extra pandas --extra arrow requirements/clients.in -o requirements/clients.txt
	$(LOCK) --all-extras requirements/mindspore.in -o requirements/mindspore.txt
	$(LOCK_PEER) requirements/bench-mindinsight.in -o requirements/bench-mindinsight.txt
	$(LOCK_PEER) requirements/bench-mlflow.in -o requirements/bench-mlflow.txt
	$(LOCK_PEER) requirements/bench-tensorboard.in -o requirements/bench-tensorboard.txt
LOCK_PEER = .venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock'
LOCK = $(LOCK_PEER) pyproject.toml

.PHONY: clean
clean: ## Remove the environments and everything that was built
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache

# ---- Environments: made anew when the content of their locked requirements changes ------------------------------

.venv/requirements: requirements/dev.txt
.venv-lowest/requirements: requirements/lowest.txt
.venv-newest/requirements: requirements/dev.txt
.venv-protobuf6/requirements: requirements/protobuf6.txt
.venv-clients/requirements: requirements/clients.txt
.venv-mindspore/requirements: requirements/mindspore.txt
.venv-mindinsight/requirements: requirements/bench-mindinsight.txt
.venv-mlflow/requirements: requirements/bench-mlflow.txt
.venv-tensorboard/requirements: requirements/bench-tensorboard.txt

%/requirements:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv found: make PYTHON=/path/to/python" >&2; exit 1; }
	@cmp -s $< $@ || { \
		set -e; echo "Making $(@D) from $< (a minute or so)" >&2; rm -rf $(@D); $(PYTHON) -m venv $(@D); \
		$(@D)/bin/python $(PIP_INSTALL) --require-hashes -r $<; cp $< $@; }
	@touch $@

%/package: %/requirements pyproject.toml
	@$(@D)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --no-index --editable .
	@touch $@
