# One verb for each task.  Needs Python >= 3.11 with venv and pip, and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# More than there are cores: tests about processes wait two thirds of their time.  Not many more: each collects all tests.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 2)')

# make demo TRACE=jobs.csv CLUSTER=80x8:V100 POLICY=fifo,srtf
TRACE   ?=
CLUSTER ?=
POLICY  ?= fifo,srtf,tiresias,gandiva
OUT     ?= out/demo
SHARED  ?= ../shared
DATA    ?= $(SHARED)/reference

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The tests start hundreds of processes; without this each of them would compile its modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo quick test soak deep gpu lint check fast bench bench-live agree elastic fidelity headlines bless docs screens site clean

help:  ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: $(STAMP)  ## make .venv with everything in it, .venv/bin/rota included, and compile the engine
	@command -v cc >/dev/null || echo "No C compiler (cc) here: the engine stays interpreted, about half as fast, with the same answers."
	@! command -v cc >/dev/null || $(MAKE) --no-print-directory fast \
	  || echo "The engine could not be compiled, see above: it stays interpreted, about half as fast, with the same answers."

IN_C := $(wildcard src/rota/*.h src/rota/*/*.[ch] src/rota/*/*/*.[ch])

$(STAMP): pyproject.toml setup.py constraints.txt tools/compiled_engine.py $(IN_C)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "rota needs Python 3.11 or newer; name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,fast]'
	$(BIN)/python tools/compiled_engine.py
	@touch $@

TORCH := $(VENV)/.torch

# For the tests of rota.training: exactly this version, so that no CUDA packages come along.
$(TORCH): $(STAMP)
	$(BIN)/pip install --quiet torch==2.13.0
	@touch $@

demo: $(STAMP)  ## compare policies on a simulated month (or TRACE=file), report in out/demo; then run real jobs
ifeq ($(TRACE),)
	@mkdir -p $(OUT)
	$(BIN)/rota trace generate --jobs $(DEMO_JOBS) --load 0.9 --cluster $(DEMO_CLUSTER) --seed 2 --out $(OUT)/trace.csv
	$(BIN)/rota simulate $(OUT)/trace.csv --cluster $(DEMO_CLUSTER) --policy $(POLICY) --out $(OUT)
	$(BIN)/rota demo
else
	$(BIN)/rota simulate $(TRACE) --cluster $(or $(CLUSTER),auto) --policy $(POLICY) --out $(OUT)
endif

DEMO_CLUSTER := $(or $(CLUSTER),16x8:V100)
DEMO_JOBS    := 3000

quick: $(STAMP)  ## the tests that start no process and never sleep: a minute, for the work loop
	$(BIN)/pytest -q -n auto --dist worksteal --quick

test: $(TORCH)  ## run the tests; those that need public traces are skipped without them
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not soak"

# `make soak MINUTES=40` begins no test after 40 minutes and counts those that it left out
soak: $(TORCH)  ## the tests that take minutes: many scenes, long replays, kills under load, the compiled build
	$(BIN)/pytest -q -n 4 --dist load --maxschedchunk 1 -m soak $(if $(MINUTES),--minutes $(MINUTES))

deep: $(TORCH)  ## properties with all their examples, of which `make test` looks at a fifth; all random scenes
	$(BIN)/pytest -q -n 2 --dist worksteal -m "hypothesis or deep" --hypothesis-profile=soak

gpu: $(TORCH)  ## on a machine with NVIDIA GPUs: the tests that need one, and the figures of docs/gpu.md
	$(BIN)/pytest -q -m gpu tests/gpu
	$(BIN)/python benchmarks/gpu.py

lint: $(STAMP)  ## ruff, formatting and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test  ## both

fast: build/fast/.built  ## compile the hot modules into build/fast anew (needs a C compiler)

# The stamp is as old as the beginning: what is edited while this runs is newer.
build/fast/.built: $(STAMP) setup.py $(shell find src -name '*.py' -o -name '*.[ch]')
	@echo "Compiling the engine: some minutes, and again only when sources have changed."
	rm -rf build/fast build/lib*  # a module that is compiled no more would stay so
	@mkdir -p build && touch build/.begun
	ROTA_COMPILE=1 $(BIN)/pip install --quiet --no-build-isolation --no-deps --target build/fast .
	@mv build/.begun $@

bench: $(STAMP) fast  ## how fast the engine is, interpreted and compiled
	ROTA_ENGINE=interpreted $(BIN)/python benchmarks/speed.py --data "$(SHARED)"
	$(BIN)/python benchmarks/speed.py --data "$(SHARED)" --million
	ROTA_ENGINE=interpreted $(BIN)/python benchmarks/shared.py
	$(BIN)/python benchmarks/shared.py

agree: $(STAMP)  ## the same jobs live and simulated with measured costs; the tables land in docs/agreement.md
	$(BIN)/python benchmarks/agreement.py --write docs/agreement.md

# `make elastic ELASTIC=afs JOBS=3` measures one of them and keeps the rows of the others; each takes three to five minutes
elastic: $(TORCH)  ## elastic policies beside rigid ones on torch jobs, live and simulated; into docs/elastic.md
	@mkdir -p build
	$(if $(ELASTIC),,@rm -f build/elastic.json)
	$(BIN)/python benchmarks/elastic.py $(if $(ELASTIC),--policy $(ELASTIC)) $(if $(JOBS),--jobs $(JOBS)) \
	  --rows build/elastic.json --write docs/elastic.md

bench-live: $(TORCH)  ## how fast the live world is, and Slurm beside it where it is installed
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/fleet.py
	$(BIN)/python benchmarks/slurm.py

fidelity: $(STAMP)  ## ours against the authors' own simulators; DATA names the folder of their results
	@if [ -d "$(DATA)" ]; then \
	  $(BIN)/rota fidelity benchmarks/fidelity/*.yaml --data "$(DATA)"; \
	else \
	  echo "skipped: no reference results at $(DATA); name their folder with DATA="; \
	fi

headlines: $(STAMP)  ## what papers claim and public traces show, into docs/headlines.md: half an hour of CPU
	$(BIN)/python benchmarks/headlines.py --data "$(SHARED)" --write docs/headlines.md

bless: $(STAMP)  ## accept changed golden files, and show what changed
	ROTA_BLESS=1 $(BIN)/pytest -q tests/cli tests/reports tests/test_examples.py
	git --no-pager diff --stat -- tests examples

docs: $(STAMP)  ## write the pages that are generated, and the figure of the README
	$(BIN)/python -m rota.reports.definitions docs/metrics.md
	$(BIN)/python -m rota.cli.pages docs README.md
	@if [ -f out/demo/report.html ]; then $(BIN)/rota figure out/demo completion --out docs/figures/demo-jct.svg; \
	else echo "docs/figures/demo-jct.svg is left as it is; 'make demo' makes the run it shows"; fi

screens: $(STAMP)  ## pictures of every page of the dashboard, in out/screens (needs Chromium and playwright)
	$(BIN)/python benchmarks/dashboard.py --screens out/screens

SITE := $(VENV)/.site

$(SITE): $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt 'mkdocs-material>=9.6,<10' 'mkdocstrings[python]>=0.29'
	@touch $@

site: $(STAMP) $(SITE)  ## the documentation as a site that needs no network, searched, into out/site
	$(BIN)/python website/build.py out

clean:  ## remove what the other verbs made, the environment included
	rm -rf $(VENV) out build dist src/*.egg-info .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
