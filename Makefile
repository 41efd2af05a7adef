# The front door. Each target sets up what it needs (scripts/setup) and is quick the second time.

.DEFAULT_GOAL := help
.PHONY: help demo test quick soak repeat coverage check bench docs wheel pythons clean

help:
	@echo "make demo      real photographs through a pipeline, beside Pillow and torch's DataLoader"
	@echo "make test      all tests, on all CPUs"
	@echo "make quick     the laws of the engine and one file a package, in a minute"
	@echo "make soak      laws, damaged media and memory, over and over for SOAK_MINUTES=30"
	@echo "make repeat    the tests that depend on when things happen, 300 times, alone and beside busy processes"
	@echo "make coverage  the lines and branches that the tests reach, in Python and in native code"
	@echo "make check     format, lint, types, layers, stubs"
	@echo "make docs      the site, in build/site"
	@echo "make bench     all benchmarks (two hours); scripts/bench NAME runs one"
	@echo "make wheel     wheels with FFmpeg inside, for Linux, and their tests (as root; half an hour the first time)"
	@echo "make pythons   all tests on Python 3.11 to 3.14, as far as they can be had"
	@echo "make clean     removes what the others made: .venv, build, .cache and tool caches"

demo:
	@scripts/demo

test:
	@scripts/test

quick:
	@scripts/quick

soak:
	@scripts/soak

repeat:
	@scripts/repeat

coverage:
	@scripts/coverage

check:
	@scripts/check

bench:
	@scripts/bench

docs:
	@scripts/docs

wheel:
	@scripts/wheels

pythons:
	@scripts/pythons

clean:
	rm -rf .venv build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis src/spdl/io/lib/*.so src/spdl/_processes/lib/*.so
	find src tests scripts benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
