"""Every test of the registry begins with an empty one, and leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sekai.registry import isolated


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    with isolated(empty=True):
        yield
