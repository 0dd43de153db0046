"""Seeds are shared by processes, however these begin and however they end."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sekai.compose import DataQueue, data_queue
from sekai.error import ClosedError, WorkerError
from tests.compose.consumers import Consumers
from tests.compose.resources import resources, started, wait_until_gone
from tests.compose.test_data_queue import OddError, Shelf, failing_at

START_METHODS = ["fork", "forkserver", "spawn"]


@pytest.fixture(params=START_METHODS)
def start_method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_seed_is_taken_by_exactly_one_process(start_method: str) -> None:
    with DataQueue(range(200), repeat=2) as queue:
        consumers = Consumers(start_method, 3, lambda: list(queue))
        taken = [seed for seeds in consumers.results() for seed in seeds]

    assert sorted(taken) == sorted([*range(200), *range(200)])


def test_processes_and_threads_take_seeds_side_by_side() -> None:
    with DataQueue(range(300), seed=0) as queue:
        consumers = Consumers("fork", 2, lambda: list(queue))
        here = list(queue)
        there = [seed for seeds in consumers.results() for seed in seeds]

    assert sorted([*here, *there]) == list(range(300))


def test_an_iterator_that_was_begun_here_goes_on_in_a_forked_process() -> None:
    with DataQueue(range(50), shuffle=False) as queue:
        seeds = iter(queue)
        assert [next(seeds), next(seeds)] == [0, 1]
        (there,) = Consumers("fork", 1, lambda: list(seeds)).results()

    assert there == list(range(2, 50))


def test_a_process_that_forks_shares_seeds_with_its_child() -> None:
    def fork_and_take() -> list[int]:
        seeds: Any = iter(queue)
        taken = [next(seeds)]
        reader, writer = os.pipe()
        if not os.fork():
            os.write(writer, pickle.dumps([next(seeds) for _ in range(20)]))
            os._exit(seeds._connection.process != os.getpid())
        taken.extend(next(seeds) for _ in range(20))
        assert os.wait()[1] == 0, "the child speaks on a line of its own"
        return [*taken, *pickle.loads(os.read(reader, 9999)), *seeds]

    with DataQueue(range(100)) as queue:
        (taken,) = Consumers("fork", 1, fork_and_take).results()

    assert sorted(taken) == list(range(100))


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("is_here", [True, False])
def test_an_interrupted_wait_loses_no_seed(is_here: bool) -> None:
    may_read = threading.Event()
    with DataQueue(Shelf(9, lambda _: wait_for(may_read)), shuffle=False) as queue:
        seeds = iter(queue if is_here else pickle.loads(pickle.dumps(queue)))
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            next(seeds)
        may_read.set()

        assert next(seeds) == 0
        # Had it asked anew, another seed would be on its way to it by now.
        time.sleep(0.1)
        assert list(queue) == list(range(1, 9))


def test_the_data_set_is_read_here_and_seeds_alone_are_sent(start_method: str) -> None:
    class Pinned(Shelf):
        """A data set that cannot leave its process."""

        def __getstate__(self) -> None:
            raise TypeError("I stay here")

        def __getitem__(self, index: int) -> int:
            return os.getpid()

    with DataQueue(Pinned(3)) as queue:
        (taken,) = Consumers(start_method, 1, lambda: list(queue)).results()

    assert taken == [os.getpid()] * 3


@pytest.mark.parametrize("kills", range(3))
def test_a_killed_consumer_loses_at_most_the_seed_in_its_hands(kills: int) -> None:
    def consume_and_die() -> None:
        seeds = iter(queue)
        for _ in range(kills):
            next(seeds)
        os.kill(os.getpid(), signal.SIGKILL)

    with DataQueue(range(100), shuffle=False) as queue:
        assert list(Consumers("fork", 2, consume_and_die).results()) == [None, None]
        rest = [seed for seeds in Consumers("fork", 2, lambda: list(queue)).results()
                for seed in seeds]  # fmt: skip

    assert sorted(rest) == list(range(2 * kills, 100))


def test_a_consumer_that_is_killed_while_it_waits_loses_nothing() -> None:
    may_read = threading.Event()
    with DataQueue(Shelf(20, lambda _: wait_for(may_read)), shuffle=False) as queue:
        doomed = Consumers("fork", 2, lambda: list(queue))
        server = queue._server
        assert server is not None
        while len(server._connections) < 2:
            time.sleep(0.01)
        for process in doomed.processes:
            process.kill()
            process.join()
        may_read.set()
        assert list(doomed.results()) == [None, None]
        taken: list[int] = []
        while len(taken) < 20:
            taken.extend(queue)
            time.sleep(0.01)

    assert sorted(taken) == list(range(20))


def wait_for(event: threading.Event) -> None:
    event.wait()


def test_a_stopped_consumer_keeps_nobody_waiting() -> None:
    def ask_and_stop() -> None:
        line = data_queue.open_connection(queue._address())
        line.send_bytes(b"?")
        os.kill(os.getpid(), signal.SIGSTOP)

    large = [bytes(2_000_000)] * 20
    with DataQueue(large, queue_maxsize=2) as queue:
        stopped = Consumers("fork", 1, ask_and_stop)
        server = queue._server
        assert server is not None
        while not server._connections:
            time.sleep(0.01)
        (taken,) = Consumers("fork", 1, lambda: len(list(queue))).results()

    assert taken in (19, 20)
    stopped.processes[0].kill()
    assert list(stopped.results()) == [None]


def test_an_error_of_the_data_set_reaches_every_process(start_method: str) -> None:
    shelf = Shelf(10, failing_at(3, LookupError("no such day")))
    with DataQueue(shelf, shuffle=False) as queue:
        reported = list(Consumers(start_method, 3, lambda: list(queue)).results())

    for kind, words, cause in reported:
        assert (kind, words) == ("LookupError", "no such day")
        assert "in before" in cause


def test_an_error_that_cannot_be_read_back_is_told_in_words() -> None:
    with DataQueue(Shelf(10, failing_at(0, OddError(1, 2)))) as queue:
        ((kind, words, _),) = Consumers("fork", 1, lambda: list(queue)).results()
        with pytest.raises(OddError, match="1 and 2"):
            next(iter(queue))

    assert (kind, words) == (WorkerError.__name__, "OddError: 1 and 2")


def test_a_seed_that_cannot_be_sent_is_an_error_and_no_silence() -> None:
    with DataQueue([threading.Lock()]) as queue:
        ((kind, words, _),) = Consumers("fork", 1, lambda: list(queue)).results()

    assert kind == "TypeError"
    assert "pickle" in words


def test_a_queue_that_closes_ends_its_consumers() -> None:
    def consume() -> Any:
        seeds = iter(queue)
        next(seeds)
        ready.set()
        return list(seeds)

    ready = multiprocessing.get_context("fork").Event()
    with DataQueue([0], repeat=-1) as queue:
        consumers = Consumers("fork", 2, consume)
        ready.wait()

    assert [kind for kind, _, _ in consumers.results()] == ["ClosedError"] * 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_consumers_end_when_the_process_of_the_queue_is_killed(tmp_path: Path, method: str) -> None:
    owner = started(
        tmp_path,
        f"""
        import multiprocessing, os, sys, time
        from sekai.compose import DataQueue

        def consume(queue):
            # In one piece: both consumers say something.
            os.write(1, b"%d\\n" % os.getpid())
            for _ in queue:
                time.sleep(0.001)

        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            with DataQueue([1], repeat=-1) as queue:
                for _ in range(2):
                    context.Process(target=consume, args=(queue,)).start()
                time.sleep(60)
        """,
    )
    assert owner.stdout is not None
    consumers = [int(owner.stdout.readline()) for _ in range(2)]

    owner.kill()

    wait_until_gone(consumers)
    assert owner.communicate()[1].count("ClosedError") == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_program_that_ends_without_closing_a_queue_ends(tmp_path: Path, workers: int) -> None:
    program = started(
        tmp_path,
        f"""
        from sekai.compose import DataQueue

        if __name__ == "__main__":
            queue = DataQueue(range(5), repeat=-1, producer_num_workers={workers}).activate()
            print(next(iter(queue)) in range(5))
        """,
    )

    output, errors = program.communicate(timeout=50)

    assert (output, errors, program.returncode) == ("True\n", "", 0)


def test_a_forked_program_that_ends_leaves_the_queue_alone(tmp_path: Path) -> None:
    program = started(
        tmp_path,
        """
        import os
        from sekai.compose import DataQueue

        with DataQueue(range(5), shuffle=False) as queue:
            seeds = iter(queue)
            first = next(seeds)
            child = os.fork()
            if child:
                print(os.waitpid(child, 0)[1], first, *seeds)
        """,
    )

    output, errors = program.communicate(timeout=50)

    assert (output, errors, program.returncode) == ("0 0 1 2 3 4\n", "", 0)


def test_reading_processes_end_when_the_process_of_the_queue_is_killed(tmp_path: Path) -> None:
    class_of_readers = """
        import os, time
        from sekai.compose import DataQueue

        class Pids:
            def __len__(self): return 2
            def __getitem__(self, index):
                time.sleep(0.2)
                return os.getpid()

        if __name__ == "__main__":
            with DataQueue(Pids(), producer_num_workers=2) as queue:
                for process in queue:
                    print(process, flush=True)
                time.sleep(60)
        """
    owner = started(tmp_path, class_of_readers)
    assert owner.stdout is not None
    readers = [int(owner.stdout.readline()) for _ in range(2)]

    owner.kill()
    owner.communicate()

    wait_until_gone(readers)


def test_other_users_are_neither_served_nor_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    with DataQueue(range(5), shuffle=False) as queue:
        elsewhere = pickle.loads(pickle.dumps(queue))
        users = iter([os.geteuid() + 1, os.geteuid() + 1, os.geteuid(), os.geteuid() + 1])
        monkeypatch.setattr(data_queue, "_user_of", lambda _: next(users))
        for _ in range(2):
            with pytest.raises(ClosedError) as raised:
                next(iter(elsewhere))
            assert isinstance(raised.value.__cause__, (EOFError, OSError))
        monkeypatch.undo()

        assert list(elsewhere) == list(range(5))


def test_where_addresses_are_files_they_are_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(data_queue, "HAS_ABSTRACT_NAMES", False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with DataQueue(range(9)) as queue:
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        (taken,) = Consumers("fork", 1, lambda: list(queue)).results()

    assert sorted(taken) == list(range(9))
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_of_queues_and_their_readers() -> None:
    def cycle() -> None:
        with DataQueue(range(10), producer_num_workers=2) as queue:
            consumers = Consumers("fork", 2, lambda: list(queue))
            taken = [seed for seeds in consumers.results() for seed in seeds]
        assert sorted(taken) == list(range(10))

    cycle()
    before = resources()
    for _ in range(4):
        cycle()

    assert resources() == before
    assert not data_queue._open_servers
