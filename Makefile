# Everything a fresh machine with Python 3.11, pip and make needs.
PYTHON ?= python3
BIN := .venv/bin
TIRESIAS_DATA ?= $(if $(wildcard ../shared/data),$(abspath ../shared/data))
export TIRESIAS_DATA

TORCH ?= torch==2.13.0

.PHONY: install demo demo-sim test lint types layers unit test-torch test-frameworks test-ray soak-ray test-browser pictures bench soak clean

install: .venv/installed

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

demo: install
	$(BIN)/tiresias demo

demo-sim: install
	$(BIN)/tiresias demo --simulate

# The types are checked while the tests begin; a failure of either fails the whole.
test: lint layers
	+$(MAKE) --no-print-directory -j2 types unit

lint: install
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports

unit: install
	$(BIN)/pytest -n 4 --dist worksteal -rs

# PyTorch is large: the tests that need it have a target of their own.
test-torch: install
	$(BIN)/pip install -q '$(TORCH)'
	$(BIN)/pytest -n 2 -rs tests/examples/test_train_torch.py tests/observe/test_observe_torch.py tests/profiles/test_read_function.py

# Frameworks for training, in an environment of their own that has nothing of ours. PyTorch comes first, so that
# the others do not bring another one. KNOWN are the versions that `--auto` patches: it leaves others alone.
FRAMEWORKS := .venv-frameworks
KNOWN := 'transformers==5.23.*' 'lightning==2.6.*' 'mlflow-skinny==3.17.*'
TOOLS := accelerate torchdata tensorboard wandb jupyterlab

$(FRAMEWORKS)/installed: Makefile
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/pip install -q '$(TORCH)'
	$(FRAMEWORKS)/bin/pip install -q $(KNOWN) $(TOOLS)
	touch $@

test-frameworks: install $(FRAMEWORKS)/installed
	TIRESIAS_FRAMEWORKS=$(abspath $(FRAMEWORKS)/bin/python) $(BIN)/pytest -n 2 --dist worksteal -rs tests/frameworks

# Ray in four network namespaces, in an environment of its own, with PyTorch for trainings over two nodes; and
# another version of Ray, which must be refused. A test that is skipped fails the whole where root, iproute2 and
# Ray are there; the last line counts what passed and what was skipped.
RAY := .venv-ray
OTHER_RAY := .venv-other-ray

$(RAY)/installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/pip install -q '$(TORCH)'
	$(RAY)/bin/pip install -q -e '.[dev,ray]'
	touch $@

$(OTHER_RAY)/installed: Makefile
	$(PYTHON) -m venv $(OTHER_RAY)
	$(OTHER_RAY)/bin/pip install -q 'ray==2.54.*'
	touch $@

test-ray: $(RAY)/installed $(OTHER_RAY)/installed
	TIRESIAS_RAY=1 TIRESIAS_OTHER_RAY=$(abspath $(OTHER_RAY)/bin/ray) $(RAY)/bin/pytest -rs tests/ray

# 40 trainings on four nodes, then as many while managers, raylets and links fail.
soak-ray: $(RAY)/installed
	TIRESIAS_RAY=1 TIRESIAS_RAY_TRAININGS=40 $(RAY)/bin/pytest -rs -s tests/ray/test_ray_campaign.py

# The pages in a real Chromium. Where it cannot be had, the tests are skipped and say what is missing.
AXE := .venv/axe

test-browser: install
	command -v chromium > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get -o DPkg::Lock::Timeout=300 update -q > /dev/null && apt-get -o DPkg::Lock::Timeout=300 install -y -q chromium > /dev/null; } || true
	$(BIN)/pip install -q 'playwright>=1.50' || true
	[ -e $(AXE)/node_modules/axe-core ] || npm install --silent --no-audit --no-fund --prefix $(AXE) axe-core@4 || true
	TIRESIAS_BROWSER=1 TIRESIAS_AXE=$(abspath $(AXE))/node_modules/axe-core/axe.min.js $(BIN)/pytest -rs tests/browser

# The pictures in README and docs, from a real run.
pictures: install
	$(BIN)/pip install -q 'playwright>=1.50'
	$(BIN)/python -m benchmarks.pictures

# What takes long: the same tests as in `make test`, with far more seeds and kills.
soak: install
	TIRESIAS_FAULT_SEEDS=100000 $(BIN)/pytest -n 2 -rs tests/faults/test_fault_simulation.py
	TIRESIAS_LEASE_S=20 $(BIN)/pytest -rs tests/cli_live/test_live_themis.py
	TIRESIAS_NODE_SEEDS=20000 $(BIN)/pytest -n 2 -rs tests/faults/test_fault_simulation_of_nodes.py
	TIRESIAS_KILLS=2000 $(BIN)/pytest -n 2 -rs tests/faults/test_kill.py
	TIRESIAS_NOTICE_KILLS=100 $(BIN)/pytest -rs tests/api/test_api_notices_kill.py
	TIRESIAS_CAUSES=1000 $(BIN)/pytest -n 2 -rs tests/live/test_causes_shown.py
	$(BIN)/pytest -n 2 -rs -m soak
	TIRESIAS_API_EXAMPLES=500 $(BIN)/pytest -rs tests/api/test_api_fuzz.py

bench: install $(RAY)/installed
	$(BIN)/python -m benchmarks
	$(RAY)/bin/python -m benchmarks gangs

clean:
	rm -rf .venv $(FRAMEWORKS) $(RAY) $(OTHER_RAY) .pytest_cache .mypy_cache .ruff_cache .hypothesis
