# Every target sets up what it needs by itself: Python 3.11 or newer, make and git are enough.
#   make demo         a host with three servers of different eras, played from a script
#   make demo-live    the same at the terminal, for you to use (LIVE="--model openai:NAME@URL" for a model of yours)
#   make tour         a short tour of the other examples, over stdio
#   make test         everything CI runs
#   make check        linters, types, import contracts, the project's rules
#   make fast         the tests that need no other implementation
#   make docs         the documentation as a site, in build/docs
#   make conformance  the official conformance suite, on every revision
#   make bench        speed against other implementations (BENCH="--quick" for a short run, "--only http" for a part)
#   make call-path    what one tools/call passes through in the server: frames, files, tasks, queues

PYTHON ?= python3
WORKERS ?= 2
BENCH ?=
LIVE ?=
TESTS ?= tests

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
PY := .venv/bin/python
INSTALL := .ci/venv $(PYTHON)
NPM_PACKAGES := server client sdk server-everything server-filesystem server-memory
INSPECTOR := @modelcontextprotocol/inspector@^2.12
CONFORMANCE := @modelcontextprotocol/conformance@0.2.0-alpha.12
SOURCES := $(shell find src -name '*.py' -o -name 'py.typed' 2>/dev/null)

# Without .pyc files every server that a test starts would compile itself again.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help demo demo-live tour test check fast docs conformance bench call-path format peers clean
.DELETE_ON_ERROR:

help:
	@sed -n '/^#   make/s/^# *//p' Makefile

demo: .venv/.ready
	@$(PY) examples/demo/story.py

demo-live: .venv/.ready
	@$(PY) examples/demo/live.py $(LIVE)

tour: .venv/.ready
	@$(PY) examples/tour.py

test: check peers
	@.ci/shells
	@.ci/nginx
	@.ci/keyring
	@.ci/browser
	@echo "== tests, examples and docs"
	@$(PY) -m pytest -q -n $(WORKERS) $(TESTS) --ignore=tests/architecture
	@$(MAKE) conformance

check: .venv/.ready
	@echo "== ruff"
	@.venv/bin/ruff check --quiet .
	@echo "== pyright"
	@.venv/bin/pyright --pythonpath $(PY) | sed '/^0 errors, 0 warnings/d'; exit $${PIPESTATUS[0]}
	@echo "== import contracts"
	@.venv/bin/lint-imports >.venv/contracts.txt 2>&1 || { cat .venv/contracts.txt; exit 1; }
	@echo "== project rules"
	@$(PY) -m pytest -q -n $(WORKERS) tests/architecture

fast: .venv/.ready
	@$(PY) -m pytest -q -n $(WORKERS) -m "not interop and not slow" $(TESTS)

docs: .venv/.docs
	@.venv/bin/mkdocs build --quiet --strict
	@echo "The site begins at build/docs/index.html."

conformance: .venv/.ready .peers/conformance/.ready
	@$(PY) -m conformance

bench: .venv/.ready .peers/mcp/.ready .peers/node/.ready .peers/dovetail_http/.ready
	@$(PY) -m bench $(BENCH)

call-path: .venv/.ready
	@$(PY) -m bench.call_path

format: .venv/.ready
	@.venv/bin/ruff check --quiet --fix --select I . && .venv/bin/ruff format --quiet .

peers: .peers/mcp/.ready .peers/mcp1/.ready .peers/tools/.ready .peers/node/.ready .peers/inspector/.ready

clean:
	rm -rf .venv .peers dist build bench/results .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.ready: pyproject.toml .ci/venv
	@echo "== setting up .venv (once)"
	@$(INSTALL) .venv -e '.[dev]'
	@touch $@

.venv/.docs: .venv/.ready
	@echo "== setting up mkdocs (once)"
	@$(INSTALL) .venv -e '.[docs]'
	@touch $@

.peers/mcp/.ready: .ci/venv Makefile
	@echo "== setting up the official Python SDK (once)"
	@$(INSTALL) .peers/mcp 'mcp>=2.3,<3' uvicorn uvloop httptools
	@touch $@

.peers/mcp1/.ready: .ci/venv Makefile
	@echo "== setting up the official Python SDK, first major version (once)"
	@$(INSTALL) .peers/mcp1 'mcp>=1.30,<2'
	@touch $@

.peers/tools/.ready: .ci/venv Makefile
	@echo "== setting up mcp-server-time and mcp-server-git (once)"
	@$(INSTALL) .peers/tools mcp-server-time mcp-server-git
	@touch $@

.peers/node/.ready: .ci/node Makefile | .venv/.ready
	@echo "== setting up the TypeScript SDK and the reference servers (once)"
	@.ci/node .venv .peers/node $(NPM_PACKAGES:%=@modelcontextprotocol/%) zod
	@touch $@

# The first even major version of Node of which every release is new enough for it.
.peers/inspector/.ready: .ci/node Makefile | .venv/.ready
	@echo "== setting up the inspector (once)"
	@NODE=24 .ci/node .venv .peers/inspector $(INSPECTOR)
	@touch $@

# An exact version: a new one comes with new scenarios, which are to be looked at when they come.
.peers/conformance/.ready: .ci/node Makefile | .venv/.ready
	@echo "== setting up the official conformance suite (once)"
	@NODE=22 .ci/node .venv .peers/conformance $(CONFORMANCE)
	@touch $@

# The wheel as a user would install it, with its .pyc files.
.peers/dovetail/.ready: $(SOURCES) pyproject.toml .ci/venv
	@echo "== building and installing the wheel"
	@rm -rf .peers/dovetail/wheel
	@$(INSTALL) .peers/dovetail
	@.peers/dovetail/bin/python -m pip wheel -qq --no-deps --wheel-dir .peers/dovetail/wheel .
	@$(INSTALL) .peers/dovetail .peers/dovetail/wheel/*.whl
	@$(INSTALL) .peers/dovetail --no-deps --force-reinstall .peers/dovetail/wheel/*.whl
	@.peers/dovetail/bin/python -m compileall -q .peers/dovetail/lib
	@touch $@

# The same with the extra for HTTP, whose packages make other packages slower to import.
.peers/dovetail_http/.ready: .peers/dovetail/.ready
	@wheel=(.peers/dovetail/wheel/*.whl) && $(INSTALL) .peers/dovetail_http "$${wheel[0]}[http]"
	@$(INSTALL) .peers/dovetail_http --no-deps --force-reinstall .peers/dovetail/wheel/*.whl
	@.peers/dovetail_http/bin/python -m compileall -q .peers/dovetail_http/lib
	@touch $@
