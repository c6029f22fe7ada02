# Every target does its own set-up: a machine needs make and Python 3.11 or newer, nothing else.
# PYTHON=… picks the interpreter; VENV=… another folder for the environment.

SHELL := /bin/sh
VENV ?= .venv
STAMP := $(VENV)/.installed
DEMO_GRID := spatial-attention/nmt-self
DEMO_ROWS := w/o 1111 1010 0010 0011
DEMO_DATA := --preset smoke --data demo --root runs/demo-data --out runs/demo
CAPTION_GRID := ngsan/full
CAPTION_DATA := --preset smoke --data demo --root runs/demo-captions --out runs/demo
SENTIMENT_GRID := mult/ablation
SENTIMENT_ROWS := "Language only" EF-Transformer MulT
SENTIMENT_DATA := --preset smoke --data demo --root runs/demo-sentiment --out runs/demo
DETECTION_GRID := spatial-attention/detection
DETECTION_DATA := --preset smoke --data demo --root runs/demo-detection --out runs/demo
SEGMENTATION_GRID := spatial-attention/segmentation
SEGMENTATION_DATA := --preset smoke --data demo --root runs/demo-segmentation --out runs/demo
IMAGE_ROWS := w/o 1111
NOT_HERE := not slurm and not ray and not browser and not java and not fairseq and not gpu and not slow

.DEFAULT_GOAL := help
.PHONY: help install fairseq java demo test check format

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv and install attnbench with its development tools into it

demo: $(STAMP) ## train small grids of each task on synthetic sets and print their tables
	@$(VENV)/bin/attnbench data demo translation --root runs/demo-data
	@$(VENV)/bin/attnbench run $(DEMO_GRID) $(DEMO_DATA) --rows $(DEMO_ROWS) --seeds 0 1
	@$(VENV)/bin/attnbench data demo captioning --root runs/demo-captions
	@$(VENV)/bin/attnbench run $(CAPTION_GRID) $(CAPTION_DATA)
	@$(VENV)/bin/attnbench data demo sentiment --root runs/demo-sentiment
	@$(VENV)/bin/attnbench run $(SENTIMENT_GRID) $(SENTIMENT_DATA) --rows $(SENTIMENT_ROWS)
	@$(VENV)/bin/attnbench data demo detection --root runs/demo-detection
	@$(VENV)/bin/attnbench run $(DETECTION_GRID) $(DETECTION_DATA) --rows $(IMAGE_ROWS)
	@$(VENV)/bin/attnbench data demo segmentation --root runs/demo-segmentation
	@$(VENV)/bin/attnbench run $(SEGMENTATION_GRID) $(SEGMENTATION_DATA) --rows $(IMAGE_ROWS)
	@$(VENV)/bin/attnbench table $(DEMO_GRID) --preset smoke --data demo --out runs/demo --rows $(DEMO_ROWS)
	@$(VENV)/bin/attnbench table $(CAPTION_GRID) --preset smoke --data demo --out runs/demo
	@$(VENV)/bin/attnbench table $(SENTIMENT_GRID) --preset smoke --data demo --out runs/demo --rows $(SENTIMENT_ROWS)
	@$(VENV)/bin/attnbench table $(DETECTION_GRID) --preset smoke --data demo --out runs/demo --rows $(IMAGE_ROWS)
	@$(VENV)/bin/attnbench table $(SEGMENTATION_GRID) --preset smoke --data demo --out runs/demo --rows $(IMAGE_ROWS)

test: $(STAMP) ## run the tests that need no cluster, Java, browser, GPU or extra
	@$(VENV)/bin/python -m pytest -m "$(NOT_HERE)"

check: $(STAMP) ## formatting, lint and types
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/pyright

format: $(STAMP) ## put the code into the shape that `make check` asks for
	@$(VENV)/bin/ruff check --fix --quiet .
	@$(VENV)/bin/ruff format .

# Built against the torch that is installed already: an isolated build would fetch a second one.
fairseq: $(STAMP) ## add the extra `fairseq` (builds for about three minutes)
	@echo "Installing the extra fairseq (about three minutes where it has to be built) …"
	@$(VENV)/bin/python -m pip install -qq cython
	@$(VENV)/bin/python -m pip install -qq --no-build-isolation -e '.[dev,fairseq]'

java: $(STAMP) ## add the extra `java-metrics` (METEOR and SPICE; Java itself comes from the system)
	@$(VENV)/bin/python -m pip install -qq -e '.[dev,java-metrics]'

$(STAMP): pyproject.toml
	@for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "attnbench needs Python 3.11 or newer and none was found on the PATH: install one, or name it with make PYTHON=/path/to/python3.11." >&2; \
	  exit 1; \
	fi; \
	if ! [ -x $(VENV)/bin/python ]; then "$$python" -m venv $(VENV) || { \
	  echo "$$python could not make a virtual environment: install its venv module (on Debian the package python3-venv)." >&2; \
	  rm -rf $(VENV); exit 1; }; \
	fi
	@$(VENV)/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(VENV) was made with a Python older than 3.11: remove that folder and run make again." >&2; exit 1; }
	@echo "Installing attnbench into $(VENV) (some minutes the first time) …"
	@$(VENV)/bin/python -m pip install -qq -e '.[dev]'
	@mkdir -p $(VENV)/editable && ln -sfn "$(CURDIR)" $(VENV)/editable/attnbench
	@touch $(STAMP)
