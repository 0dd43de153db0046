"""Ray actors at their posts: who dies is replaced, and nobody can tell."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sekai.error import WorkerError
from sekai.training.distributed.cluster import answered
from sekai.training.distributed.matching import Probe
from sekai.training.distributed.worker import Order, Place, Worker

__all__ = ["Posts"]

LOG = logging.getLogger(__name__)

RETRIES = 3
"""How often a worker is replaced in the midst of one question."""

START_SECONDS = 180.0
"""How long the cluster may take to find room for a worker."""

CLOSE_SECONDS = 5.0


class Posts:
    """A worker for each order, wherever the cluster has room."""

    def __init__(self, ray: Any, orders: Sequence[Order]) -> None:
        self._ray, self._orders = ray, list(orders)
        # A worker that is lost is replaced here, where it is known how it goes on.
        self._kind = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self._deaths = (
            ray.exceptions.RayActorError,
            ray.exceptions.ObjectLostError,
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.OutOfMemoryError,
        )
        self.places: list[Place | None] = [None] * len(self._orders)
        """Where the envs of each post are."""
        self._probes: list[Probe] = []
        self._workers = [self._kind.remote() for _ in self._orders]

    def begin(self, places: Sequence[Place | None]) -> list[dict[str, Any]]:
        """Let all make their envs and go on from there; None for the very beginning."""
        self.places = list(places)
        self._wait_for(self._workers)
        return self.ask("make", list(zip(self._orders, self.places, strict=True)))

    def match(self, probes: Sequence[Probe]) -> list[bool]:
        """Let all compute what is computed here; who can."""
        self._probes = list(probes)
        return self.ask("match", [(probe,) for probe in probes])

    def ask(self, method: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask all the same, each with what is given, at the same time; the answers in order."""
        answers = [self._asked(post, method, args) for post, args in enumerate(given)]
        return [
            self._answer(post, partial(_itself, answer), partial(self._again, post, method, args))
            for post, (args, answer) in enumerate(zip(given, answers, strict=True))
        ]

    def _asked(self, post: int, method: str, args: tuple[Any, ...]) -> Any:
        return getattr(self._workers[post], method).remote(*args)

    def _again(self, post: int, method: str, args: tuple[Any, ...]) -> Any:
        self._replace(post)
        return self._asked(post, method, args)

    def _answer(
        self, post: int, ask: Callable[[], Any], again: Callable[[], Any], left: int = RETRIES
    ) -> Any:
        """What a worker answers, or the one that takes its place."""
        try:
            return answered(self._ray, ask())
        except self._deaths as error:
            if not left or not self._can_replace(post):
                raise self._lost(post, error) from error
            LOG.warning("worker %d was lost, and is replaced: %s", post, _first_line(error))
        return self._answer(post, again, again, left - 1)

    def _replace(self, post: int) -> None:
        """Let another worker take over a post, from where the last answer left its envs."""
        self._ray.kill(self._workers[post])
        self._workers[post] = worker = self._kind.remote()
        self._wait_for([worker])
        answered(self._ray, worker.make.remote(self._orders[post], self.places[post]))
        if self._probes:
            answered(self._ray, worker.match.remote(self._probes[post]))

    def _can_replace(self, post: int) -> bool:
        place = self.places[post]
        return place is None or place.envs is not None

    def _lost(self, post: int, error: BaseException) -> WorkerError:
        why = f"was lost {RETRIES + 1} times in a row"
        if not self._can_replace(post):
            why = "was lost, and its envs cannot tell their state for another to go on from"
        return WorkerError(f"worker {post} of {len(self._orders)} {why}: {_first_line(error)}")

    def _wait_for(self, workers: Sequence[Any]) -> None:
        greetings = [worker.greet.remote() for worker in workers]
        ready, _ = self._ray.wait(
            greetings, num_returns=len(greetings), timeout=START_SECONDS, fetch_local=False
        )
        if len(ready) < len(greetings):
            raise WorkerError(
                f"room for {len(self._orders)} workers of a core each was wanted, and the cluster "
                f"has started {len(ready)} in {START_SECONDS:.0f} s: ask for fewer workers, or add "
                "machines"
            )

    def close(self) -> None:
        """Close all envs and end all workers."""
        ray = self._ray
        with suppress(ray.exceptions.RayError):
            farewells = [worker.close.remote() for worker in self._workers]
            ray.wait(farewells, num_returns=len(farewells), timeout=CLOSE_SECONDS)
        for worker in self._workers:
            with suppress(ray.exceptions.RayError):
                ray.kill(worker)


def _itself(value: Any) -> Any:
    return value


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
