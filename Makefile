# Every command of the project. "make" alone lists them. PYTHON chooses the interpreter, ARGS is passed on.
.DEFAULT_GOAL := help
.PHONY: help setup run test check test-all coverage bench sim

BIN := .venv/bin
DEMO_DATA := .fireledger-demo
SOURCES := domain projections runners replay
QUICK := not integration and not slow and not long
# Most of the time goes by in waits for real instants, so more tests than cores run at once.
AT_ONCE := -n 5 --dist worksteal
SEED ?= 1
HOURS ?= 24
QUARTER_DAYS ?= 300
WHOLE_DAYS ?= 5000
ARGS ?=
export PYTHON

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## make or renew the environment in .venv (PYTHON=... to choose the interpreter)
	@ops/environment.sh

run: setup ## start Fireledger with the demo tenant (ARGS="..." for further options of "fireledger up")
	@$(BIN)/fireledger up --demo --data $(DEMO_DATA) $(ARGS)

test: setup ## run the tests, long waits in their short form (QUARTER_DAYS=4 for a quick run; ARGS="..." for pytest)
	@$(BIN)/python -m pytest $(AT_ONCE) --quarter-days=$(QUARTER_DAYS) $(ARGS)

check: setup ## format, lint, types, layers, docstrings, house rules and the fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/interrogate $(SOURCES)
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python -m pytest -m "$(QUICK)" $(ARGS)

test-all: setup ## run every test, the long ones included, with ten times the examples (WHOLE_DAYS=40 for an hour of it)
	@$(BIN)/python -m pytest -m "" --hypothesis-profile=thorough --whole-days=$(WHOLE_DAYS) $(AT_ONCE) $(ARGS)

coverage: setup ## branch coverage of the fast tests
	@$(BIN)/coverage run -m pytest -m "$(QUICK)" $(ARGS)
	@$(BIN)/coverage report

bench: setup ## measure lateness, decisions per second and recurrence searches on this machine
	$(BIN)/python ops/bench/lateness.py
	$(BIN)/python ops/bench/decide.py
	$(BIN)/python ops/bench/recurrence.py

sim: setup ## simulate from a seed (SEED=1 HOURS=24)
	@$(BIN)/python -m tests.simulation.run $(SEED) $(HOURS)
