"""Random numbers of an agent: its own stream, whatever else runs in the process."""

from __future__ import annotations

from types import TracebackType

import torch

__all__ = ["Randomness"]


class Randomness:
    """While it is entered, torch draws from this stream; outside, from the one it had."""

    def __init__(self, seed: int) -> None:
        outer = torch.get_rng_state()
        torch.manual_seed(seed)
        self.state = torch.get_rng_state()
        torch.set_rng_state(outer)
        self._outer: list[torch.Tensor] = []

    def restore(self, state: torch.Tensor) -> None:
        """Go on from a state that was kept; one that is none is refused, and changes nothing."""
        outer = torch.get_rng_state()
        try:
            torch.set_rng_state(state)
            self.state = torch.get_rng_state()
        finally:
            torch.set_rng_state(outer)

    def __enter__(self) -> Randomness:
        self._outer.append(torch.get_rng_state())
        torch.set_rng_state(self.state)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.state = torch.get_rng_state()
        torch.set_rng_state(self._outer.pop())
