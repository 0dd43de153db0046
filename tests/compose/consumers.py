"""Processes that take seeds; a module of its own, which new processes import quickly."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

from sekai.vector.messages import CloudPickled


def run(job: CloudPickled, answers: Any) -> None:
    """Run a job in this process and report its result."""
    try:
        answers.send(job.value())
    except Exception as error:
        cause = error.__cause__
        answers.send((type(error).__name__, str(error), str(cause) if cause else ""))


class Consumers:
    """Processes that run the same job; their results can be awaited."""

    def __init__(self, start_method: str, count: int, job: Callable[[], Any]) -> None:
        context: Any = multiprocessing.get_context(start_method)
        self.answers, self.processes = [], []
        for _ in range(count):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=run, args=(CloudPickled(job), theirs), daemon=True)
            process.start()
            theirs.close()
            self.answers.append(mine)
            self.processes.append(process)

    def results(self) -> Iterator[Any]:
        """Result of each process; None if it died."""
        for answer, process in zip(self.answers, self.processes, strict=True):
            assert answer.poll(30), "a consumer hangs"
            try:
                yield answer.recv()
            except EOFError:
                yield None
            answer.close()
            process.join()
            process.close()
