"""Workers of a Ray cluster that let the envs of an agent act, some of them each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from copy import deepcopy
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sekai.error import StateError
from sekai.training.distributed.cluster import connected, cores_of
from sekai.training.distributed.env_states import cut_states, joined_state
from sekai.training.distributed.matching import Probe, weights_of
from sekai.training.distributed.orders import orders_of
from sekai.training.distributed.posts import Posts
from sekai.training.distributed.rows import cut_rows, joined_rows, portions_of
from sekai.training.distributed.worker import Place, Played
from sekai.training.observations import tensors_of
from sekai.vector.batching import map_arrays

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Crew"]

LOG = logging.getLogger(__name__)


class Crew:
    """While it is entered, an agent's envs act in workers; what it learns is the same.

    Each worker has an agent of the same kind with some of the envs. It is sent weights and the
    state of the random stream, draws for all envs what they would draw together, and sends back
    what happened, once for as many steps as lie between two updates. It also sends where its envs
    are, so that another can take its place.
    """

    def __init__(self, agent: Agent, workers: int | None, address: str | None) -> None:
        self.agent, self._workers, self._address = agent, workers, address
        # Whatever cannot be spread is refused before anything has begun.
        orders_of(agent, portions_of(agent.vec.num_envs, self._checked(workers or 1)))
        self._is_away = False

    def _checked(self, workers: int) -> int:
        if workers > self.agent.vec.num_envs:
            raise ValueError(
                f"workers must be at most the {self.agent.vec.num_envs} envs, was {workers}"
            )
        return workers

    def __enter__(self) -> Crew:
        with ExitStack() as opened:
            ray = opened.enter_context(connected(self._address, self._workers))
            count = self._workers or min(cores_of(ray), self.agent.vec.num_envs)
            self._ray, self.portions = ray, portions_of(self.agent.vec.num_envs, count)
            self.posts = Posts(ray, orders_of(self.agent, self.portions))
            opened.callback(self.posts.close)
            self._opened = opened.pop_all()
        self._is_ready, self._is_fresh = False, not self.agent._has_begun
        self.agent._crew = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.agent._crew = None
        with self._opened:
            if self._can_come_home:
                self.bring_home()
            else:
                LOG.warning("envs cannot tell their state: training that goes on begins episodes")
                self.agent._has_begun = False

    def play(self, moments: Sequence[int]) -> None:
        """Let all envs act, and give the agent what happened."""
        if not self._is_ready:
            self._get_ready()
        weights = self._ray.put(weights_of(self.agent.network))
        stream = torch.get_rng_state().numpy()
        answers = self.posts.ask("play", [(weights, list(moments), stream)] * len(self.portions))
        played: list[Played] = [found for found, _ in answers]
        self._go_on(played)
        # Copies, since what another process has sent stays in its memory, and cannot be changed.
        places: list[Place] = [deepcopy(place) for _, place in answers]
        self.posts.places = list(places)
        parts = zip(self.portions, (found.part for found in played), strict=True)
        self.agent._take_played(list(parts))
        self.agent._load_acting_state(joined_rows([place.acting for place in places]))
        self._is_away = True

    def bring_home(self) -> None:
        """Let the agent's own envs be where those of the workers are.

        Raises:
            StateError: they cannot tell where they are.
        """
        if not self._is_away:
            return
        if not self._can_come_home:
            raise StateError(
                "envs in workers cannot tell their state, and cannot be brought back: save(..., "
                "envs=False) keeps all but the envs"
            )
        told = [place.envs for place in self.posts.places if place and place.envs]
        self.agent.vec.load_state_dict(joined_state(told))
        self._is_away = False

    @property
    def _can_come_home(self) -> bool:
        places = self.posts.places
        return not self._is_away or all(place and place.envs is not None for place in places)

    def _get_ready(self) -> None:
        agent, acting = self.agent, self.agent._acting_state()
        cut = [cut_rows(acting, portion) for portion in self.portions]
        if self._is_fresh:
            found = self.posts.begin([None] * len(self.portions))
            self._check_alike(found, cut)
        else:
            self.posts.begin(list(map(Place, self._env_states(), cut)))
        probe = Probe.of(agent.network, tensors_of(acting["seen"]))
        if not all(self.posts.match([probe.cut(portion) for portion in self.portions])):
            LOG.warning(
                "workers compute otherwise than this process, and what is learnt is not the same, "
                "bit for bit: use machines with processors of one kind"
            )
        self._is_ready = True

    def _env_states(self) -> list[dict[str, Any]]:
        try:
            return cut_states(self.agent.vec, self.portions)
        except StateError as error:
            raise StateError(
                f"episodes that are under way cannot go on in workers: {error}; an agent that has "
                "not begun can begin there"
            ) from error

    @staticmethod
    def _check_alike(found: Sequence[Any], wanted: Sequence[Any]) -> None:
        """Raise unless envs in workers began as those of the agent did."""
        alike: list[bool] = []

        def compare(one: Any, other: Any) -> None:
            alike.append(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))

        for own, cut in zip(found, wanted, strict=True):
            map_arrays(compare, cut, own)
        if not all(alike):
            raise StateError(
                "envs made from the same seeds must begin alike in all processes, and those in "
                "workers began otherwise: what makes them may depend on more than their seed"
            )

    def _go_on(self, played: Sequence[Played]) -> None:
        """Let the random stream go on where those of the workers are."""
        first = played[0].stream
        if any(not np.array_equal(found.stream, first) for found in played):
            raise StateError(
                "workers must draw equally many random numbers, and one has drawn others: networks "
                "of your own must not draw by what they see"
            )
        torch.set_rng_state(torch.tensor(first))
