"""Every seed of a queue is used exactly once, in a known order, and read when it is due."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.compose import DataQueue
from sekai.error import ClosedError, StateError, WorkerError
from tests.compose.resources import resources


class Shelf:
    """Numbers below `count`; remembers what was read, and may fail or wait on the way."""

    def __init__(self, count: int, before: Callable[[int], None] | None = None) -> None:
        self.count = count
        self.before = before
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        if self.before is not None:
            self.before(index)
        self.read.append(index)
        return index


def taken_by(queue: DataQueue[Any], consumers: int) -> list[list[Any]]:
    """Items that each of several consumer threads receives."""
    taken: list[list[Any]] = [[] for _ in range(consumers)]

    def consume(mine: list[Any]) -> None:
        mine.extend(queue)

    threads = [threading.Thread(target=consume, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


@given(
    count=st.integers(0, 40),
    repeat=st.integers(1, 4),
    shuffle=st.booleans(),
    maxsize=st.integers(0, 9),
    consumers=st.integers(1, 5),
)
@settings(max_examples=40, deadline=None)
def test_every_seed_is_taken_once_in_each_repeat(
    count: int, repeat: int, shuffle: bool, maxsize: int, consumers: int
) -> None:
    queue = DataQueue(range(count), repeat, shuffle, queue_maxsize=maxsize)
    with queue:
        taken = taken_by(queue, consumers)

    assert sorted(itertools.chain(*taken)) == sorted(list(range(count)) * repeat)


def test_without_shuffling_seeds_come_in_the_order_of_the_data_set() -> None:
    with DataQueue("abc", repeat=2, shuffle=False) as queue:
        assert list(queue) == ["a", "b", "c", "a", "b", "c"]
        assert list(queue) == []


@given(seed=st.integers(0, 2**63), count=st.integers(20, 60))
@settings(max_examples=10, deadline=None)
def test_a_seed_gives_one_order_and_each_repeat_another(seed: int, count: int) -> None:
    def order() -> list[int]:
        with DataQueue(range(count), repeat=2, seed=seed) as queue:
            return list(queue)

    first = order()
    assert order() == first
    assert sorted(first[:count]) == sorted(first[count:]) == list(range(count))
    assert first[:count] != first[count:]


def test_orders_differ_from_seed_to_seed_and_a_random_one_is_told() -> None:
    orders = []
    queues = [DataQueue(range(50)) for _ in range(2)]
    for queue in queues:
        with queue:
            orders.append(list(queue))

    assert orders[0] != orders[1]
    with DataQueue(range(50), seed=queues[0].seed) as again:
        assert list(again) == orders[0]


def test_an_endless_queue_gives_all_seeds_again_and_again() -> None:
    with DataQueue(range(7), repeat=-1, seed=3) as queue:
        taken = list(itertools.islice(queue, 700))

    rounds = [tuple(taken[first : first + 7]) for first in range(0, 700, 7)]
    assert all(sorted(one) == list(range(7)) for one in rounds)
    assert len(set(rounds)) > 50


@pytest.mark.parametrize("repeat", [1, -1])
def test_an_empty_data_set_has_no_seeds_however_often_it_is_repeated(repeat: int) -> None:
    nothing: list[int] = []
    with DataQueue(nothing, repeat=repeat) as queue:
        assert list(queue) == []


@pytest.mark.parametrize("maxsize", [1, 3])
def test_no_more_is_read_than_was_asked_for_and_may_lie_ready(maxsize: int) -> None:
    shelf = Shelf(100)
    with DataQueue(shelf, shuffle=False, queue_maxsize=maxsize) as queue:
        seeds = iter(queue)
        for taken in range(5):
            deadline = time.monotonic() + 5
            while len(shelf.read) < taken + maxsize and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.02)
            assert shelf.read == list(range(taken + maxsize))
            assert next(seeds) == taken


def test_a_queue_must_be_active_to_be_used_and_becomes_so_once() -> None:
    queue = DataQueue([1, 2], shuffle=False)
    for use in (iter, pickle.dumps):
        with pytest.raises(ValueError, match="not active"):
            use(queue)

    assert list(queue.activate()) == [1, 2]
    with pytest.raises(ValueError, match="activated before"):
        queue.activate()
    queue.close()
    with pytest.raises(ValueError, match="activated before"), queue:
        pass


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"repeat": 0}, "repeat must be at least 1, or -1"),
        ({"repeat": -2}, "repeat must be an integer of at least -1"),
        ({"repeat": 1.5}, "repeat must be an integer"),
        ({"producer_num_workers": -1}, "producer_num_workers must be"),
        ({"queue_maxsize": -1}, "queue_maxsize must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        DataQueue([1], **options)


def test_a_data_set_needs_a_length_and_items() -> None:
    with pytest.raises(TypeError, match="must have a length and items"):
        DataQueue(iter([1]))  # type: ignore[arg-type]


def failing_at(place: int, error: BaseException) -> Callable[[int], None]:
    def before(index: int) -> None:
        if index == place:
            raise error

    return before


def test_an_error_of_the_data_set_reaches_every_consumer() -> None:
    shelf = Shelf(10, failing_at(3, KeyError("no such day")))
    with DataQueue(shelf, shuffle=False) as queue:
        one, two = iter(queue), iter(queue)
        assert [next(one), next(two), next(one)] == [0, 1, 2]
        for seeds in (one, two, one, iter(queue)):
            with pytest.raises(KeyError, match="no such day") as raised:
                next(seeds)
            assert "while the data set was read" in str(raised.value.__cause__)
            assert "in before" in str(raised.value.__cause__)


def test_a_stop_iteration_of_the_data_set_is_no_end_of_the_seeds() -> None:
    shelf = Shelf(10, failing_at(1, StopIteration("the file is short")))
    with DataQueue(shelf, shuffle=False) as queue:
        seeds = iter(queue)
        assert next(seeds) == 0
        with pytest.raises(RuntimeError, match="StopIteration: the file is short"):
            next(seeds)


def test_a_length_that_fails_later_fails_after_the_seeds_before_it() -> None:
    class Shrinking(Shelf):
        def __len__(self) -> int:
            if self.read:
                raise OSError("the disk is gone")
            return 2

    with DataQueue(Shrinking(2), repeat=2, shuffle=False, queue_maxsize=1) as queue:
        seeds = iter(queue)
        assert [next(seeds), next(seeds)] == [0, 1]
        with pytest.raises(OSError, match="the disk is gone"):
            next(seeds)


def test_closing_wakes_who_waits_for_a_seed() -> None:
    may_read, caught = threading.Event(), []

    def before(index: int) -> None:
        if index:
            may_read.wait()

    queue = DataQueue(Shelf(9, before), shuffle=False).activate()
    assert next(iter(queue)) == 0

    def consume() -> None:
        seeds = iter(queue)
        try:
            for _ in range(9):
                next(seeds)
        except ClosedError as error:
            caught.append(error)

    waiting = [threading.Thread(target=consume) for _ in range(2)]
    for thread in waiting:
        thread.start()
    threading.Timer(0.1, may_read.set).start()
    queue.close()
    for thread in waiting:
        thread.join()

    assert len(caught) == 2
    with pytest.raises(ClosedError, match="closed"):
        next(iter(queue))


def test_closing_waits_for_the_seed_that_is_being_read_and_reads_no_other() -> None:
    begun = threading.Event()

    def before(index: int) -> None:
        begun.set()
        time.sleep(0.2)

    shelf = Shelf(9, before)
    with DataQueue(shelf, queue_maxsize=5):
        begun.wait()

    assert len(shelf.read) == 1
    time.sleep(0.5)
    assert len(shelf.read) == 1
    assert not [thread for thread in threading.enumerate() if "sekai-data" in thread.name]


def test_the_position_in_a_queue_is_no_state() -> None:
    with DataQueue([1, 2]) as queue, pytest.raises(StateError, match="cannot be saved"):
        copy.deepcopy(iter(queue))


def test_nothing_is_left_of_queues_that_were_used() -> None:
    def cycle() -> None:
        with DataQueue(range(10)) as queue:
            elsewhere = pickle.loads(pickle.dumps(queue))
            seeds = [next(iter(elsewhere)), *queue]
            assert sorted(seeds) == list(range(10))
        with pytest.raises(KeyError), DataQueue(range(3), repeat=-1):
            raise KeyError
        forgotten = DataQueue(range(3)).activate()
        assert next(iter(forgotten)) in range(3)

    cycle()
    before = resources()
    for _ in range(20):
        cycle()

    assert resources() == before


def test_reading_processes_share_the_reading() -> None:
    class Slow:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> tuple[int, int]:
            import os

            time.sleep(0.2)
            return index, os.getpid()

    with DataQueue(Slow(), shuffle=False, producer_num_workers=2, queue_maxsize=8) as queue:
        taken = list(queue)

    assert [index for index, _ in taken] == list(range(8))
    assert len({process for _, process in taken}) == 2


class OddError(Exception):
    """An error that can be pickled and not read back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("harm", "kind", "match"),
    [
        ("raise", LookupError, "no such day"),
        ("stop", RuntimeError, "StopIteration"),
        ("odd", WorkerError, "OddError: 1 and 2"),
        ("die", WorkerError, "a process that reads the data set died"),
    ],
)
def test_an_error_in_a_reading_process_reaches_the_consumer(
    harm: str, kind: type[Exception], match: str
) -> None:
    def before(index: int) -> None:
        import os

        if index == 2 and harm == "raise":
            raise LookupError("no such day")
        if index == 2 and harm == "stop":
            raise StopIteration
        if index == 2 and harm == "odd":
            raise OddError(1, 2)
        if index == 2:
            os._exit(1)

    with DataQueue(Shelf(9, before), shuffle=False, producer_num_workers=1) as queue:
        seeds = iter(queue)
        with pytest.raises(kind, match=match) as raised:
            list(seeds)
        with pytest.raises(kind, match=match):
            next(iter(queue))

    assert raised.value.__cause__ is not None
