# Every target sets up what it needs by itself: Python 3.11 or newer, make and git are enough.
#   make demo         a host with three servers of different protocol revisions, typed by a script
#   make demo-live    the same at the terminal, for you to use (LIVE="--model openai:NAME@URL" for a model of yours)
#   make tour         a short tour of the other examples, over stdio
#   make test         everything CI runs
#   make check        linters, types, import contracts, the project's rules
#   make fast         the tests that need no other implementation
#   make versions     the tests with the lowest and the newest dependencies, on Python 3.11 to 3.14
#   make attacks      the regression tests of all attacks that once got through, with a table of the results
#   make soak         ten minutes of mixed traffic with faults (SOAK="--minutes 1" for a short run)
#   make replicas     the tests over HTTP, of the matrix and of faults, against three replicas over Redis behind nginx (TESTS=… for a part)
#   make chaos        ten minutes of replicas killed, Redis restarted and cut off under load (CHAOS="--minutes 1" for a short run,
#                     "--gateway 2025-11-25" for gateways in front of a server of that revision)
#   make docs         the documentation as a site, in build/docs
#   make conformance  the official conformance suite, on every revision
#   make compat       other people's clients and servers against ours (COMPAT="--only mcp-1.2.0" for a part, "--resume" for the rest)
#   make gateway-matrix  real clients and servers of every era through a gateway (MATRIX="--clients python1 --servers everything" for a part)
#   make bench        speed against other implementations (BENCH="--quick" for a short run, "--only http" for a part)
#   make call-path    what one tools/call passes through in the server: frames, files, tasks, queues

PYTHON ?= python3
WORKERS ?= 2
BENCH ?=
COMPAT ?=
MATRIX ?=
LIVE ?=
SOAK ?=
CHAOS ?=
VERSIONS ?= lowest 3.12 3.13 3.14
TESTS ?= tests
# What can run against replicas, which takes four minutes, and what `make test` runs of it.
OVER_HTTP := tests/matrix tests/faults/test_http_*.py \
	$(addprefix tests/server/http/test_,sessions.py resumption.py legacy_sse.py letting_go.py)
REPLICATED := tests/matrix/test_questions.py tests/matrix/test_resources.py tests/matrix/test_tasks_core.py tests/matrix/test_tasks_extension.py tests/faults/test_http_forgeries.py \
	tests/server/http/test_resumption.py

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
PY := .venv/bin/python
INSTALL := .ci/venv $(PYTHON)
NPM_PACKAGES := server client ext-tasks sdk server-everything server-filesystem server-memory
INSPECTOR := @modelcontextprotocol/inspector@^2.12
CONFORMANCE := @modelcontextprotocol/conformance@0.2.0-alpha.12
# The demos need only the extras for HTTP and the terminal; what the tests need is five times as large.
DEMO_READY := $(if $(wildcard .venv/.ready),.venv/.ready,.venv/.demo)
PORTED := mcp-server-time==2026.10.19 mcp-server-motherduck==1.1.0
PORTED1 := mcp-server-calculator==0.2.1 mcp-server-sqlite==2025.4.25
NEEDED := msgspec jsonschema-rs cryptography
SOURCES := $(shell find src -name '*.py' -o -name 'py.typed' 2>/dev/null)

# Without .pyc files every server that a test starts would compile itself again.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help demo demo-live tour test check attacks versions soak replicas chaos fast docs conformance compat gateway-matrix bench call-path format peers clean
.DELETE_ON_ERROR:

help:
	@sed -n '/^#   make/s/^# *//p' Makefile

demo: $(DEMO_READY)
	@$(PY) examples/demo/scripted.py

demo-live: $(DEMO_READY)
	@$(PY) examples/demo/live.py $(LIVE)

tour: $(DEMO_READY)
	@$(PY) examples/tour.py

test: check peers
	@.ci/shells
	@.ci/nginx
	@.ci/haproxy
	@.ci/redis
	@.ci/keyring
	@.ci/browser
	@echo "== the documentation as a site"
	@$(MAKE) docs
	@echo "== tests, examples and docs"
	@.ci/tests $(PY) $(WORKERS) $(TESTS) --ignore=tests/architecture
	@echo "== a part of the tests over HTTP against three replicas"
	@$(MAKE) replicas TESTS="$(REPLICATED)"
	@$(MAKE) versions
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

# With the newest versions of all dependencies on the oldest Python, `make test` does the same in a new clone.
versions: .venv/.ready
	@for version in $(VERSIONS); do PYTHON=$(PYTHON) .ci/versions $$version $(WORKERS) || exit 1; done

attacks: .venv/.ready .peers/lowest_http/.ready
	@.ci/nginx
	@$(PY) -m tests.attacks.report -n $(WORKERS)

soak: .venv/.ready
	@$(PY) -m tests.load.soak $(SOAK)

replicas: .venv/.ready
	@.ci/nginx
	@.ci/redis
	@DOVETAIL_REPLICAS=3 .ci/tests $(PY) $(WORKERS) $(if $(filter tests,$(TESTS)),$(OVER_HTTP),$(TESTS))

chaos: .venv/.ready
	@.ci/nginx
	@.ci/redis
	@$(PY) -m tests.replicas.chaos $(CHAOS)

fast: .venv/.ready
	@$(PY) -m pytest -q -n $(WORKERS) -m "not interop and not slow" $(TESTS)

docs: .venv/.docs
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict
	@echo "Open the site, with its search:  $(PY) -m http.server --bind 127.0.0.1 --directory build/docs 8080"

conformance: .venv/.ready .peers/conformance/.ready
	@$(PY) -m conformance

compat: .venv/.ready
	@$(PY) -m compat $(COMPAT)

gateway-matrix: .venv/.ready .peers/mcp/.ready .peers/mcp1/.ready .peers/node/.ready
	@$(PY) -m tests.gateway.matrix $(MATRIX)

bench: .venv/.ready .peers/mcp/.ready .peers/node/.ready .peers/dovetail_http/.ready
bench: .peers/fastmcp3/.ready .peers/mcp_proxy/.ready
	@$(PY) -m bench $(BENCH)

call-path: .venv/.ready
	@$(PY) -m bench.call_path

format: .venv/.ready
	@.venv/bin/ruff check --quiet --fix --select I . && .venv/bin/ruff format --quiet .

peers: .peers/compat/.quick .peers/mcp/.ready .peers/mcp1/.ready .peers/fastmcp2/.ready .peers/fastmcp3/.ready
peers: .peers/lowest_http/.ready .peers/ported/.ready .peers/ported1/.ready
peers: .peers/tools/.ready .peers/node/.ready .peers/inspector/.ready

clean:
	rm -rf .venv .peers dist build bench/results .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.demo: pyproject.toml .ci/venv
	@echo "== installing Dovetail with the extras cli and http (once)"
	@PROGRESS=1 $(INSTALL) .venv -e '.[cli,http]'
	@touch $@

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

.peers/fastmcp2/.ready: .ci/venv Makefile
	@echo "== setting up FastMCP, second major version (once)"
	@$(INSTALL) .peers/fastmcp2 'fastmcp>=2.14,<3'
	@touch $@

.peers/fastmcp3/.ready: .ci/venv Makefile
	@echo "== setting up FastMCP, third major version (once)"
	@$(INSTALL) .peers/fastmcp3 'fastmcp>=3.4,<4'
	@touch $@

.peers/mcp_proxy/.ready: .ci/venv Makefile
	@echo "== setting up mcp-proxy (once)"
	@$(INSTALL) .peers/mcp_proxy mcp-proxy
	@touch $@

# Published servers, which the tests migrate with `dovetail migrate`, and what Dovetail itself needs; exact versions,
# because the edits by hand fit these.
.peers/ported/.ready: .ci/venv Makefile
	@echo "== setting up FastMCP, fourth major version, and two servers to migrate (once)"
	@$(INSTALL) .peers/ported 'fastmcp>=4.1,<5' 'mcp>=2.3,<3' $(PORTED) $(NEEDED)
	@touch $@

.peers/ported1/.ready: .ci/venv Makefile
	@echo "== setting up two servers to migrate, on the first major version of the official Python SDK (once)"
	@$(INSTALL) .peers/ported1 'mcp>=1.30,<2' $(PORTED1) $(NEEDED)
	@touch $@

.peers/tools/.ready: .ci/venv Makefile
	@echo "== setting up mcp-server-time and mcp-server-git (once)"
	@$(INSTALL) .peers/tools mcp-server-time mcp-server-git
	@touch $@

.peers/node/.ready: .ci/node Makefile | .venv/.ready
	@echo "== setting up the TypeScript SDK and the reference servers (once)"
	@.ci/node .venv .peers/node $(NPM_PACKAGES:%=@modelcontextprotocol/%) zod
	@touch $@

# Six of the clients of `make compat`, which installs the others when they are met.
.peers/compat/.quick: compat/clients.py compat/install.py .ci/venv .ci/node | .venv/.ready
	@echo "== setting up six clients of others (once)"
	@$(PY) -m compat --quick --install
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

# The oldest uvicorn, parsers and WebSocket library that are allowed; Dovetail itself is taken from src.
.peers/lowest_http/.ready: pyproject.toml .ci/venv .ci/lowest.py
	@echo "== setting up the lowest versions for HTTP (once)"
	@mkdir -p .peers && $(PYTHON) .ci/lowest.py http >.peers/lowest_http.txt
	@$(INSTALL) .peers/lowest_http -r .peers/lowest_http.txt
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
