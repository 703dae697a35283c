# Everything needs Python 3.11 or later and nothing else; `test-all` adds PostgreSQL.

PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8000
# What `test-all` and `bench` speak to. The database is made and dropped by the tests themselves.
POSTGRES_URL ?= postgres://postgres@127.0.0.1:5432/chatmemory
# A process of tests a core and one more, since some wait; each with a database of its own; a file stays in one process.
AT_ONCE := -n $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() + 1, 5))') --dist loadfile
# What is slow waits for processes and for leases more than for a core.
WAITING := -n 4 --dist worksteal
QUICK := not slow and not services and not browser and not clients and not clients_python and not agents and not templates and not wheel
# What installs the locked versions, each checked by its hash: uv takes seconds where pip takes a minute.
INSTALL = $(BIN)/uv pip install --quiet --require-hashes --python
NEEDS_PYTHON = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chatmemory needs Python 3.11 or later: make PYTHON=python3.11 ...")'
# Where to look, for less than everything: make test-postgres WHERE=tests/api
WHERE ?=
# What .ci/run leaves to `make test-all`.
PART = $(if $(THOROUGH),,and not nightly)
ON_POSTGRES = $(if $(THOROUGH),,and postgres)
# What comes out the same on any database, or brings one of its own.
NO_DATABASE := $(addprefix --ignore tests/,unit upstream services/lab/test_replay.py services/lab/test_playing.py services/commands/test_quickstart.py processes/test_sixth_policy.py)

# Python keeps what it compiled, and pytest what it made of asserts: 10 s a process of tests that would else be spent again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-clients test-clients-python test-agents test-all test-exhaustive test-slow test-postgres test-slow-postgres test-services test-browser test-templates test-wheel schemathesis faults faults-pgbouncer test-pgbouncer lint types audit screenshots recording docs bench lab recall evidence lock clean

run: .venv/runtime
	$(BIN)/python manage.py quickstart --port $(PORT)

test: .venv/installed
	$(BIN)/python -m pytest $(AT_ONCE) -m "not exhaustive and $(QUICK)"

# Every case of what `make test` shows by one case of a class, and what takes a second and more by itself.
test-exhaustive: .venv/installed
	$(BIN)/python -m pytest $(AT_ONCE) -m "exhaustive and $(QUICK) $(PART)" $(WHERE)

test-all: export THOROUGH=1
test-all: test test-exhaustive test-slow test-postgres test-slow-postgres test-services test-browser test-clients test-clients-python test-agents test-templates test-wheel schemathesis

test-slow: .venv/installed
	$(BIN)/python -m pytest $(WAITING) -m "slow and not services and not browser"

test-postgres: .venv/installed
	DATABASE_URL=$(POSTGRES_URL) $(BIN)/python -m pytest $(AT_ONCE) -m "$(QUICK) $(ON_POSTGRES)" $(NO_DATABASE) $(WHERE)

test-slow-postgres: .venv/installed
	DATABASE_URL=$(POSTGRES_URL) $(BIN)/python -m pytest $(WAITING) -m "slow and not services and not browser" $(NO_DATABASE) $(WHERE)

test-services: .venv/installed
	POSTGRES_URL=$(POSTGRES_URL) $(BIN)/python -m pytest -m "services $(PART)" $(WHERE)

# Chromium in the path, headless.
test-browser: .venv/installed
	$(BIN)/python -m pytest -m "browser $(PART)" -n 2 --dist loadfile $(WHERE)

# Public clients of OpenAI's API: of Node, which npm installs, and of Python.
test-clients: .venv/installed tests/clients/node_modules/installed
	$(BIN)/python -m pytest -m clients tests/clients

test-clients-python: .venv/installed .venv/clients/installed
	$(BIN)/python -m pytest -m clients_python tests/clients

# Clients of the Model Context Protocol, and its conformance suite: 400 MB, so it is no part of .ci/run.
test-agents: .venv/installed tests/clients/mcp/node_modules/installed
	$(BIN)/python -m pytest -m agents tests/clients/test_agents.py

tests/clients/mcp/node_modules/installed: tests/clients/mcp/package-lock.json
	npm install --no-save --prefix tests/clients/mcp --silent --no-audit --no-fund --ignore-scripts
	npm rebuild --prefix tests/clients/mcp --silent node @anthropic-ai/claude-code
	touch $@

# Chat templates of real models, which the source of llama-cpp-python carries as text files. Nothing of it is built.
test-templates: .venv/installed .venv/templates/unpacked
	CHAT_TEMPLATES=.venv/templates $(BIN)/python -m pytest -m templates tests/clients/test_templates.py

.venv/templates/unpacked: tests/clients/templates.lock .venv/bin/uv
	rm -rf $(@D)
	$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --require-hashes -d $(@D) -r $<
	tar -xzf $(@D)/*.tar.gz -C $(@D) --wildcards '*.jinja'
	rm $(@D)/*.tar.gz
	touch $@

tests/clients/node_modules/installed: tests/clients/package-lock.json
	npm ci --prefix tests/clients --silent --no-audit --no-fund --ignore-scripts
	touch $@

# The wheel, built, installed into an empty environment, and walked.
test-wheel: .venv/installed
	$(BIN)/python -m pytest -m wheel tests/processes/test_wheel.py

# Pictures of every page, desktop and phone, light and dark, into docs/screenshots/.
screenshots: .venv/installed
	$(BIN)/python -m tests.browser.support.screenshots

# The first minute as a moving picture, docs/first-minute.gif.
recording: .venv/installed
	$(BIN)/python -m tests.browser.support.screenshots first-minute

# Every check of schemathesis against a running server.
schemathesis: .venv/installed
	SCHEMATHESIS=1 $(BIN)/python -m pytest tests/security/outside/test_schemathesis.py

# Breaks all that can break, as often as is worth an hour and more. `make test-all` has a short form of it.
faults: export FAULTS=full
faults: .venv/installed
	$(BIN)/python -m pytest -m "promise and not services and not browser"
	DATABASE_URL=$(POSTGRES_URL) POSTGRES_URL=$(POSTGRES_URL) $(BIN)/python -m pytest -m promise $(NO_DATABASE)

# The same promises in short form, with PgBouncer in front of PostgreSQL; and those of them that .ci/run shows.
faults-pgbouncer: .venv/installed
	DATABASE_URL=$(POSTGRES_URL) $(BIN)/python -m tests.faults.bench.pgbouncer \
		$(BIN)/python -m pytest -m "promise and not services and not browser" $(NO_DATABASE)

test-pgbouncer: .venv/installed
	DATABASE_URL=$(POSTGRES_URL) $(BIN)/python -m tests.faults.bench.pgbouncer \
		$(BIN)/python -m pytest -m "promise and pgbouncer"

lint: .venv/installed types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file /dev/null
	$(BIN)/python -m benchmarks.size --ceiling 42562

# Holes known in what we stand on, and holes in our own code. S101: our asserts tell types and guard nothing.
# OFFLINE=1 without a network.
audit: .venv/installed
	$(BIN)/ruff check --select S --ignore S101 .
	$(BIN)/python -m pytest tests/security/outside/test_supply_chain.py
	$(BIN)/python -m tests.security.outside.audit

# What of docs/ is made from the code: settings.md, and the list of modules in architecture.md.
docs: .venv/installed
	$(BIN)/python -m benchmarks.modules_list
	$(BIN)/python -m benchmarks.settings_page

types: .venv/installed
	$(BIN)/mypy chatmemory conversations memory tests benchmarks

bench: .venv/installed
	POSTGRES_URL=$(POSTGRES_URL) $(BIN)/python -m benchmarks

# Plays the sample conversations, and those of the folder SAMPLES, and writes docs/lab.md. Takes some minutes.
lab: .venv/installed
	$(BIN)/python -m benchmarks.lab

# What recall brings into prompts of 1,000 to 3,000 tokens, on the chats of the folder SAMPLES, of the public sets LOCOMO
# and LONGMEMEVAL (a file each) and on our own; writes docs/recall.md. Takes some minutes.
recall: .venv/installed
	POSTGRES_URL=$(POSTGRES_URL) $(BIN)/python -m benchmarks.recall

# How much of what questions need is in whole prompts, on the chats of the folders BEAM, BEAM_500K, GATEMEM, REALMEM,
# REALTALK and SAMPLES, of LOCOMO and LONGMEMEVAL (a file each) and on our own. Keeps the chats in var/evidence; ARGS="--help" says what can be chosen.
evidence: .venv/installed
	$(BIN)/python -m benchmarks.evidence $(ARGS)

# Locked versions, with hashes, which `make lock` alone changes: what runs it; that and what tests and checks it; clients
# of others in Python, which need another version of OpenAI's SDK.
.venv/installed: .venv/bin/uv requirements-dev.lock
	@echo "Installing the locked packages, with those for tests and checks, into .venv."
	@$(INSTALL) $(BIN)/python -r requirements-dev.lock
	@touch .venv/runtime $@

# What runs it, and no more: a part of the above.
.venv/runtime: .venv/bin/uv requirements.lock
	@echo "Installing the locked packages into .venv."
	@$(INSTALL) $(BIN)/python -r requirements.lock
	@touch $@

.venv/clients/installed: requirements-clients.lock .venv/bin/uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) .venv/clients
	$(INSTALL) .venv/clients/bin/python -r $<
	touch $@

.venv/bin/uv:
	$(NEEDS_PYTHON)
	@echo "Making a Python environment in .venv."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check uv==0.13.9

COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11
lock: .venv/bin/uv
	$(COMPILE) --extra dev --extra lab --extra otel --extra check pyproject.toml -o requirements-dev.lock
	$(COMPILE) --extra otel -c requirements-dev.lock pyproject.toml -o requirements.lock
	printf 'langchain\nlangchain-openai>=1.7\nlitellm>=1.106\nmcp\ninstructor\nopenai-agents>=0.24\npydantic-ai-slim[openai]\nagent-framework-openai' | $(COMPILE) - -o requirements-clients.lock

clean:
	rm -rf .venv var .mypy_cache .ruff_cache .hypothesis
