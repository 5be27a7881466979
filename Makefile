# The few commands of this repository; each installs what it needs into .venv first.
PYTHON = $(shell scripts/find-python)
BIN = .venv/bin
ENGINES = REQUIRE_TEST_SERVERS=1 REQUIRE_ENGINES=1 TEST_SERVERS=$(CURDIR)/.venv/servers .venv-vllm/bin/python -m pytest -W default
CORE = src/askonce/canonical/*,src/askonce/policy/*,src/askonce/trust/*,src/askonce/trust/text/*,src/askonce/trust/account/*,src/askonce/tiers/*,src/askonce/flow.py,src/askonce/kv/sketch.py,src/askonce/kv/reuse.py,src/askonce/kv/admission.py,src/askonce/kv/fit.py,src/askonce/kv/prefill.py,src/askonce/kv/gate.py,src/askonce/kv/ledger.py,src/askonce/kv/usage.py,src/askonce/kv/audit.py,src/askonce/kv/floats.py,src/askonce/kv/sights.py,src/askonce/kv/curves.py,src/askonce/kv/sizes.py,src/askonce/kv/plan.py,src/askonce/errors.py,src/askonce/events.py,src/askonce/units.py,src/askonce/config.py,src/askonce/ports/*

.PHONY: serve example story test test-stores test-kv test-kv-vllm servers check format lint lint-deploy types contracts coverage docs bench bench-stores bench-kv bench-kv-vllm bench-kv-storage bench-peers pins serve-env dev-env vllm-env clean

serve: serve-env ## start AskOnce; ARGS="--port 8401" passes flags
	$(BIN)/askonce serve $(ARGS)

example: dev-env ## ask a running AskOnce, and see who answers
	@$(BIN)/python examples/first_answers.py

story: dev-env ## watch a cache learn how far it may go, and stop when answers change
	@$(BIN)/python examples/learning_to_trust.py

test: dev-env servers ## run the tests; ARGS="-k name" passes flags
	$(BIN)/pytest $(ARGS)

test-stores: dev-env servers ## run the tests against real servers, none left out
	REQUIRE_TEST_SERVERS=1 $(BIN)/pytest -m servers $(ARGS)

test-kv: dev-env servers ## test the shared KV tier: contract, faults, a million spoilt blocks; no engine needed
	KV_TRIALS=1000000 REQUIRE_TEST_SERVERS=1 $(BIN)/pytest -s tests/kv tests/cli/test_kv_command.py $(ARGS)

test-kv-vllm: dev-env servers vllm-env ## test the shared KV tier on real vLLM engines for the CPU, in .venv-vllm
	$(ENGINES) -s tests/kv/vllm $(ARGS)
	for tree in .venv-vllm/trees/*; do echo "the contracts of vLLM $${tree##*/}"; \
	  VLLM_TARGET_DEVICE=cpu PYTHONPATH=$(CURDIR)/$$tree \
	  $(ENGINES) -q tests/kv/vllm/test_tier.py tests/kv/vllm/test_conformance.py || exit 1; done

servers: dev-env ## lay real servers for the tests, and linters, into .venv, without root
	@$(BIN)/python scripts/servers.py

check: lint types contracts docs coverage ## all that a change must pass

format: dev-env ## put the code into shape
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

lint: dev-env
	$(BIN)/ruff format --check
	$(BIN)/ruff check

lint-deploy: dev-env servers ## check what is in deploy by the linters of its parts, none left out
	REQUIRE_TEST_SERVERS=1 $(BIN)/pytest tests/deploy $(ARGS)

types: dev-env
	$(BIN)/mypy

contracts: dev-env
	$(BIN)/lint-imports

coverage: dev-env servers
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report --include='$(CORE)' --fail-under=100 --skip-covered --show-missing

docs: dev-env
	$(BIN)/zensical build --strict --clean

bench-stores: dev-env servers ## measure the stores that replicas share
	$(BIN)/python -m bench stores memcached lookup vectors fleet $(ARGS)
	$(BIN)/python -m bench faults scale --rounds 1 $(ARGS)

bench: dev-env ## measure; ARGS="exact" passes names
	$(BIN)/python -m bench $(ARGS)

bench-kv-vllm: dev-env servers ## measure a prefix computed, held and loaded, on real engines, beside LMCache
	@$(PYTHON) scripts/vllm.py lmcache
	TEST_SERVERS=$(CURDIR)/.venv/servers PYTHONPATH=src:. .venv-vllm/bin/python -m bench.kv_vllm $(ARGS)

bench-kv-storage: dev-env servers vllm-env ## measure what int8 storage does to answers, on real engines
	TEST_SERVERS=$(CURDIR)/.venv/servers PYTHONPATH=src:. .venv-vllm/bin/python -m bench.kv_storage

bench-kv: dev-env servers ## measure the shared KV tier beside a bare socket and LMCache's pattern
	$(BIN)/python -m bench kv kvsim $(ARGS)

bench-peers: dev-env servers ## measure next to LiteLLM, redisvl and GPTCache, laid into .venv-peers
	@$(BIN)/python scripts/peers.py
	$(BIN)/python -m bench peers $(ARGS)

pins: dev-env ## resolve the newest versions that pyproject.toml allows
	scripts/pin

serve-env:
	@$(PYTHON) scripts/install.py serve

dev-env:
	@$(PYTHON) scripts/install.py dev

vllm-env:
	@$(PYTHON) scripts/vllm.py

clean: ## remove what the commands above made
	rm -rf .venv .venv.lock .venv-peers .venv-vllm .venv-vllm.lock .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage site
