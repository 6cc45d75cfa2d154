# Every target sets up .venv by itself; nothing but Python, make and the package registries is needed.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin
WORKERS ?= 2
# Flower pins its dependencies narrowly, so deployments over it have an environment of their own.
FLOWER_VENV ?= .venv-flower
FLOWER_READY := $(FLOWER_VENV)/.ready
FLOWER_BIN := $(FLOWER_VENV)/bin
FLOWER_TESTS := tests/flower tests/deployment tests/node/test_scorers.py src/tacit/flower src/tacit/deployment
# Small models: one thread per process is fastest, and two test workers do not fight over cores.
# Tests start many processes: the first to read a module keeps its bytecode for the others, whatever the shell says.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

.PHONY: venv flower-venv demo deploy-demo test test-flower test-slow bench honest-table tune fusion-planted cold-planted attack-table attack-interactions attack-membership audit-privacy table-pfedrec table-fedrkg table-order table-recency order-figures table-backbones table-baselines table-fedmr-ku table-fedmr-ml table-fedmr-ablations table-coldstart table-coldstart-ablations table-mdifffr-main table-channel table-privacy poisoning table-papers-privacy leaderboard table-fedrkg-appendix-c table-fedrkg-appendix-c-backbones table-fedrkg-ablations table-fedrkg-clean reasons search-length figures-pfedrec figures-fedrkg table-above-ease scale lint clean table-mdifffr-ablations table-fedmr-noise table-mdifffr-noise figures-fusion

venv: $(READY)

# torch goes first, at the pinned version: anything that resolves torch later finds it satisfied. Bytecode is left to the
# first import: writing that of every module of torch takes longer than all the rest of the installation. That first
# import is made here, beside the rest.
$(READY): constraints.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt "$$(grep '^torch==' constraints.txt)" numpy
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -c "import torch" & \
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev]' && wait
	touch $(READY)

flower-venv: $(FLOWER_READY)

$(FLOWER_READY): constraints-flower.txt pyproject.toml
	test -x $(FLOWER_BIN)/python || $(PYTHON) -m venv $(FLOWER_VENV)
	$(FLOWER_BIN)/python -m pip install --quiet --no-compile -c constraints-flower.txt "$$(grep '^torch==' constraints-flower.txt)"
	$(FLOWER_BIN)/python -m pip install --quiet --no-compile -c constraints-flower.txt -e '.[dev,flower,export]'
	touch $(FLOWER_READY)

demo: $(READY)
	$(BIN)/tacit demo

# A small shop over a real SuperLink and five nodes, on this machine (docs/deploy.md).
deploy-demo: $(FLOWER_READY)
	$(TEST_ENV) $(FLOWER_BIN)/python examples/deployment/demo.py

# Deployments over Flower are tested as well where their environment is: `make flower-venv` makes it.
test: $(READY)
	$(TEST_ENV) $(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist worksteal
	if test -e $(FLOWER_READY); then $(MAKE) test-flower; fi

test-flower: $(FLOWER_READY)
	$(TEST_ENV) $(FLOWER_BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist worksteal $(FLOWER_TESTS)

test-slow: $(READY)
	$(TEST_ENV) $(BIN)/python -m pytest -m slow
	if test -e $(FLOWER_READY); then $(TEST_ENV) $(FLOWER_BIN)/python -m pytest -m slow $(FLOWER_TESTS); fi

# The figures of the README: ratios measured in one run.
bench: $(READY)
	$(BIN)/python -m lab.bench --out docs/results

# The table of the README; needs ML-100K where TACIT_DATA points.
honest-table: $(READY)
	$(BIN)/python -m lab.honest_table

# The rates of the tuned presets, chosen on validation; needs ML-100K as well.
tune: $(READY)
	$(BIN)/python -m lab.tune

# Whether the router is personal and content helps, on planted datasets (docs/fusion.md).
fusion-planted: $(READY)
	$(BIN)/python -m lab.fusion_planted

cold-planted: $(READY)
	$(BIN)/python -m lab.cold_planted

# What generated rows tell of content (docs/attack.md): three generators that read the same features, and two controls.
ATTACKED = --data ml-100k --rounds 60 --set evaluate_every=10
attack-table: $(READY)
	$(BIN)/tacit train mdifffr $(ATTACKED) --resume --out runs/attack/mdifffr
	$(BIN)/tacit train mdifffr --preset released $(ATTACKED) --resume --out runs/attack/released
	$(BIN)/tacit train mdifffr --preset tuned $(ATTACKED) --set cold.first.features.reduce=true --resume --out runs/attack/ours
	$(BIN)/tacit train ipfedrec --preset narrow $(ATTACKED) --set cold.features.reduce=true --resume --out runs/attack/ipfedrec
	$(BIN)/tacit train ifedncf --preset narrow $(ATTACKED) --set cold.features.reduce=true --resume --out runs/attack/ifedncf
	$(BIN)/tacit attack inversion runs/attack/mdifffr runs/attack/released runs/attack/ours runs/attack/ipfedrec runs/attack/ifedncf --out runs/attack/page
	cp runs/attack/page/inversion.csv docs/results/attack-inversion.csv

# Which items stand in a history, from uploads and from sums; needs ML-100K. In the second series two of a hundred rounds are watched, in
# the third all that the budget was spent on.
ITEMS_OF = $(BIN)/tacit attack interactions
SERIES = pfedrec --data ml-100k
attack-interactions: $(READY)
	$(ITEMS_OF) $(SERIES) --rounds 2 --targets 300 --with private:view=local --epsilon none,1000,100,20,8,4,2,1 --out runs/attack/uploads
	$(ITEMS_OF) $(SERIES) --rounds 100 --targets 200 --clients 2,10,50,200 --with private --epsilon none,20,8,4,2,1 --out runs/attack/sums
	$(ITEMS_OF) $(SERIES) --rounds 2 --targets 200 --clients 2,10,50,200 --with private --epsilon none,20,8,4,2,1 --out runs/attack/sums-all-rounds
	$(ITEMS_OF) pfedrec fedmf fedncf fcf_als fedease fednext fedspectral --data ml-100k --rounds 50 --targets 50 --out runs/attack/methods
	$(ITEMS_OF) pfedrec fedmf fedncf --data ml-100k --rounds 50 --first 49 --targets 50 --out runs/attack/methods-late
	for one in uploads sums sums-all-rounds methods methods-late; do cp runs/attack/$$one/interactions.csv docs/results/attack-interactions-$$one.csv; done

# Who was there, from released models of the planted data; and guarantees against draws of the noise that is really added.
attack-membership: $(READY)
	$(BIN)/tacit attack membership fedease fednext --rounds 2 --models 400 --epsilon none,8,4,2,1 --out runs/attack/membership
	cp runs/attack/membership/membership.csv docs/results/attack-membership.csv

AUDIT = $(BIN)/tacit audit privacy
audit-privacy: $(READY)
	$(AUDIT) pfedrec --with clip:bound=1 --with gaussian:sigma=4 --rounds 50 --seeds 20 --out runs/audit/by-hand
	$(AUDIT) pfedrec --with private:epsilon=8 --seeds 20 --out runs/audit/pfedrec
	$(AUDIT) fedease --with private:epsilon=2 --seeds 20 --out runs/audit/fedease
	for one in by-hand pfedrec fedease; do cp runs/audit/$$one/privacy.csv docs/results/audit-privacy-$$one.csv; done

# Published tables made again (docs/tables.md); what is finished is kept, so give the same target again to go on.
# Without SEEDS each table runs as many as it says.
BUDGET ?= 1.4
TABLE = $(BIN)/python -m lab.table --budget $(BUDGET) $(if $(SEEDS),--seeds $(SEEDS)) --publish

table-pfedrec: $(READY)
	$(TABLE) pfedrec-main

table-fedrkg: $(READY)
	$(TABLE) fedrkg-main

table-fedrkg-appendix-c: $(READY)
	$(TABLE) fedrkg-appendix-c

# Tables 3, 2 and D.1; they share runs with the table above.
table-fedrkg-appendix-c-backbones: $(READY)
	$(TABLE) fedrkg-appendix-c-backbones

table-fedrkg-ablations: $(READY)
	$(TABLE) fedrkg-ablations

table-fedrkg-clean: $(READY)
	$(TABLE) fedrkg-clean

# The runs that show why cells are far from the published value.
reasons: $(READY)
	$(BIN)/python -m lab.reasons --budget $(BUDGET)

# Whether short searches choose what full ones would.
search-length: $(READY)
	$(BIN)/python -m lab.search_length --budget $(BUDGET)

# Figures of the papers, and tables that are looks into runs; pictures in runs/figures. BUDGET is for each.
FIGURE = $(BIN)/python -m lab.figures --budget $(BUDGET)

figures-pfedrec: $(READY)
	$(FIGURE) pfedrec-figure-2
	$(FIGURE) pfedrec-figure-3

figures-fedrkg: $(READY)
	$(FIGURE) fedrkg-figure-2
	$(FIGURE) fedrkg-figure-4
	$(FIGURE) fedrkg-figure-5
	$(FIGURE) fedrkg-table-4
	$(FIGURE) fedrkg-table-5
	$(FIGURE) fedrkg-gates

table-backbones: $(READY)
	$(TABLE) fedrkg-backbones

table-baselines: $(READY)
	$(TABLE) baselines

table-above-ease: $(READY)
	$(TABLE) above-ease

# Networks take hours here: on a machine with a GPU, give `--device cuda` to the same command.
table-order: $(READY)
	$(TABLE) order

# Also runs/tables/privacy/privacy.png and .svg.
table-privacy: $(READY)
	$(BIN)/python -m lab.privacy_table --budget $(BUDGET) $(if $(SEEDS),--seeds $(SEEDS)) --publish

table-recency: $(READY)
	$(TABLE) recency

# A million simulated people and a server's unit costs: docs/scale.md (3 minutes, 8 GB).
scale: $(READY)
	$(BIN)/python -m lab.scale --out docs/results --publish

# What bad uploads do to a federation, and which rules over uploads hold (about half an hour of one core).
poisoning: $(READY)
	$(BIN)/python -m lab.poisoning

# Figures of docs/order.md that stand in neither table.
order-figures: $(READY)
	$(BIN)/python -m lab.order_figures

table-fedmr-ku: $(READY)
	$(TABLE) fedmr-ku

table-fedmr-ml: $(READY)
	$(TABLE) fedmr-ml

table-fedmr-ablations: $(READY)
	$(TABLE) fedmr-ablations

table-coldstart: $(READY)
	$(TABLE) coldstart

table-coldstart-ablations: $(READY)
	$(TABLE) coldstart-ablations

# MDiffFR's Tables 2 and 3.
table-mdifffr-main: $(READY)
	$(TABLE) mdifffr-main

# MDiffFR itself on every dataset: its Table 4 and its figure of widths; then its Table 5.
table-mdifffr-ablations: $(READY)
	$(TABLE) mdifffr-ablations

table-mdifffr-noise: $(READY)
	$(TABLE) privacy-mdifffr

# FedMR's Table 6.
table-fedmr-noise: $(READY)
	$(TABLE) privacy-fedmr

# Figures of FedMR and MDiffFR, one by one (`make figure-fedmr-gap`; `python -m lab.fusion_figures` names them) or all. Numbers go to
# docs/results, PNG and SVG files below runs/figures.
FUSION_FIGURES = fedmr-gap fedmr-router fedmr-curves fedmr-clients fedmr-rates fedmr-fedrap mdifffr-clouds mdifffr-widths
FUSION_TARGETS = $(FUSION_FIGURES:%=figure-%)
.PHONY: $(FUSION_TARGETS)
$(FUSION_TARGETS): figure-%: $(READY)
	$(BIN)/python -m lab.fusion_figures $* --publish

figures-fusion: $(FUSION_TARGETS)

table-channel: $(READY)
	$(TABLE) channel

# Papers' rows with noise, and the epsilon that it has; BUDGET is for each of the four tables.
table-papers-privacy: $(READY)
	$(TABLE) privacy-pfedrec
	$(TABLE) privacy-fedrkg
	$(TABLE) privacy-fedmr
	$(TABLE) privacy-mdifffr

# Every system of `tacit list` with its default preset on five datasets (docs/study.md); go on with the same command.
leaderboard: $(READY)
	$(BIN)/python -m lab.leaderboard --budget $(BUDGET) --publish

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf src/tacit/__pycache__/kernels
	find src tests lab -name '*.nb[ic]' -delete
