# Everything needs Python 3.11 or later and nothing else; `test-all` adds PostgreSQL and Redis.

PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8000
# What `test-all` and `bench` speak to. Both databases are made and dropped by the tests themselves.
POSTGRES_URL ?= postgres://postgres@127.0.0.1:5432/chatmemory
REDIS_URL_FOR_TESTS ?= redis://127.0.0.1:6379/5
# A process of tests a core, each with a database of its own; a file stays in one process.
AT_ONCE := -n auto --maxprocesses 4 --dist loadfile

.PHONY: run test test-all test-slow test-postgres test-services lint types bench lab lock clean

run: .venv/installed
	$(BIN)/python manage.py quickstart --port $(PORT)

test: .venv/installed
	$(BIN)/python -m pytest $(AT_ONCE) -m "not services and not slow"

test-all: test test-slow test-postgres test-services

test-slow: .venv/installed
	$(BIN)/python -m pytest $(AT_ONCE) -m "slow and not services"

test-postgres: .venv/installed
	DATABASE_URL=$(POSTGRES_URL) $(BIN)/python -m pytest $(AT_ONCE) -m "not services" --ignore tests/pure --ignore tests/llm

test-services: .venv/installed
	POSTGRES_URL=$(POSTGRES_URL) REDIS_URL_FOR_TESTS=$(REDIS_URL_FOR_TESTS) $(BIN)/python -m pytest -m services

lint: .venv/installed types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file /dev/null

types: .venv/installed
	$(BIN)/mypy chatmemory conversations memory tests benchmarks

bench: .venv/installed
	POSTGRES_URL=$(POSTGRES_URL) $(BIN)/python -m benchmarks

# Plays the sample conversations, and those of the folder SAMPLES, and writes docs/lab.md. Takes some minutes.
lab: .venv/installed
	$(BIN)/python -m benchmarks.lab

# Locked versions, with hashes. `make lock` is the one target that changes them.
.venv/installed: requirements-dev.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chatmemory needs Python 3.11 or later: make PYTHON=python3.11 ...")'
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	touch $@

lock:
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --extra dev --extra lab --extra redis pyproject.toml -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --extra redis -c requirements-dev.lock pyproject.toml -o requirements.lock

clean:
	rm -rf .venv var .mypy_cache .ruff_cache .hypothesis
