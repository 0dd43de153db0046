"""How many threads torch computes with, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["threads"]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """While it is entered, torch computes with so many threads.

    Sums depend on how many add them up, so that the number is part of what makes a training the
    same again. Threads of networks that are small spend their time waiting for each other.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
