# Every target does its own set-up first, on a machine with only Python 3.11, Java 17 and make.
# The second time that takes a moment.

PYTHON ?= python3
RUN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long lint format lock conformance faults soak cluster properties followed fuzz simulate scale machine changed supply matrix site clean bench bench-short integrations release

help: ## say what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## virtual environment, locked packages, Delta jars
	@command -v $(PYTHON) >/dev/null || { \
	  echo "setup: $(PYTHON) was not found" >&2; \
	  echo "  install Python 3.11 or newer (Debian and Ubuntu: apt-get install python3 python3-venv)," >&2; \
	  echo "  or name it: make PYTHON=/path/to/python3.11" >&2; exit 69; }
	@$(PYTHON) tools/setup.py

demo: setup ## keep four streams and a view over a year of flights and weather, and check every row
	@$(RUN)/python -m jobs.demo $(ARGS)

test: setup ## the tests, two files at a time (ARGS="-k name" for some of them, "-n 0" in one process)
	@$(RUN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-long: setup ## further cases, which take as long again
	@$(RUN)/python -m pytest -m long -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: setup ## ruff, mypy --strict, import layers, gates of size
	@status=0; \
	for check in "ruff check ." "ruff format --check ." mypy lint-imports "python tools/gates.py"; do \
	  $(RUN)/$$check || status=1; \
	done; exit $$status

format: setup ## let ruff lay out the code
	@$(RUN)/ruff check --fix-only --quiet .
	@$(RUN)/ruff format --quiet .

bench: setup ## benchmarks side by side (ARGS="--scenario small_tick --repeat 5"), into build/bench.json
	@$(RUN)/python -m tests.benchmarks $(ARGS)

bench-short: setup ## some of them in five minutes; fails when lakestream takes more times as long than may be
	@$(RUN)/python -m tests.benchmarks --short

faults: setup ## faults by name (ARGS="--fault NAME"), or kill and check again and again (ARGS="--cycles 200")
	@$(RUN)/python -m tests.faults $(ARGS)

soak: setup ## a commit a second for MINUTES=360, and what it costs at the end (ARGS=compressed: two minutes' rows each, as fast as it goes)
	@$(RUN)/python -m tests.faults.steady $(or $(MINUTES),360) $(ARGS)

cluster: setup ## streams on a Spark cluster of a master and two workers, as locally (ROWS=20000000; ARGS="--scenario same")
	@$(RUN)/python -m tests.cluster $(if $(ROWS),--rows $(ROWS)) $(ARGS)

conformance: setup ## run the conformance cases (CASES=DIR for a folder of your own)
	@CASES="$(CASES)" $(RUN)/python -m pytest -m "" tests/conformance $(ARGS)

properties: setup ## random histories against the reference (ARGS="--count 1000 --seed 7")
	@$(RUN)/python -m tests.properties $(ARGS)

fuzz: setup ## statements drawn, worded and changed at random, of every dialect (COUNT=100000)
	@FUZZ_TEXTS="$(or $(COUNT),100000)" $(RUN)/python -m pytest -n 2 tests/unit/language/test_fuzz.py $(ARGS)

simulate: setup ## leases, outbox and rounds over simulated time and storage (COUNT=1000000 SEED=7)
	@$(RUN)/python -m tests.simulation --count $(or $(COUNT),1000000) --seed $(or $(SEED),1) $(ARGS)

scale: setup ## what steps cost by their size, and many streams and daemons simulated by it (ARGS="--costs FILE")
	@$(RUN)/python -m tests.scale $(ARGS)

machine: setup ## a lake under random statements, changes, upkeep and kills (ACTIONS=10000 SEED=7)
	@$(RUN)/python -m tests.machine --actions $(or $(ACTIONS),1000) --seed $(or $(SEED),1) $(ARGS)

changed: setup ## conformance cases with other words: only errors of ours (ARGS="--count 500 --seed 7")
	@$(RUN)/python -m tests.conformance.changed $(ARGS)

supply: setup ## what comes with the package: an SBOM, licences, known vulnerabilities
	@$(RUN)/python tools/supply.py

site: setup ## the documentation as a site, into build/site
	@$(RUN)/python tools/site/build.py

integrations: setup ## operators by Airflow, assets by Dagster, models by dbt, lint of the image, in environments of their own (ARGS="dbt")
	@$(RUN)/python -m tests.integrations $(ARGS)

followed: setup ## streams that follow every table they read, and views, over random histories (ARGS="--count 100 --seed 7")
	@$(RUN)/python -m tests.properties.followed $(ARGS)
	@$(RUN)/python -m tests.properties.views $(ARGS)
	@$(RUN)/python -m tests.properties.kept $(ARGS)
	@$(RUN)/python -m tests.properties.tpch $(ARGS)
	@$(RUN)/python -m tests.properties.wide $(ARGS)
	@$(RUN)/python -m tests.properties.nexmark $(ARGS)
	@$(RUN)/python -m tests.properties.by_spark $(ARGS)

matrix: setup ## streams by all pairs of kinds, modes and changes (ARGS="--count 1000 --seed 7")
	@$(RUN)/python -m tests.properties.matrix $(ARGS)

release: setup ## a version: its number, changes, wheel and sdist, commit and tag (VERSION=0.2.0)
	@PYTHONPATH=. $(RUN)/python tools/release.py $(VERSION)

lock: setup ## compile requirements.in into requirements.lock, with hashes, and those beside it
	@UV=$$(command -v uv || echo $(RUN)/uv); \
	lock() { $$UV pip compile $$1/requirements.in $$2 --output-file $$1/requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet --upgrade || exit 1; }; \
	for folder in . tests/benchmarks/rivals tests/integrations/dbt tests/integrations/deploy tools/site tools/supply; do lock $$folder; done; \
	for folder in tests/integrations/airflow tests/integrations/dagster; do lock $$folder pyproject.toml; done

clean: ## remove what the set-up and the runs made
	rm -rf .venv .jars .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache demo-lake
