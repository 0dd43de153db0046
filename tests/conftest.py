"""Settings that hold for every test."""

from __future__ import annotations

from hypothesis import settings

# The default run draws the same examples every time: a suite that was green stays green.
# `make nightly` searches at random with `--hypothesis-profile=search`; what it finds becomes an
# `@example` of its test. Time limits are pytest-timeout's: a deadline per example fails on a
# loaded machine.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("repeatable")
