"""States of envs with objects in them, as a file can keep them."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import logging
from collections import defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from sekai.core.portable_state import Placeholder, portable
from sekai.error import StateError
from sekai.storage.codec import ArrayStore, from_json_value, to_json_value
from tests.worlds import Duel, RandomWalk

ACTION = np.full(2, 0.25, dtype=np.float32)


class Side(enum.Enum):
    """Direction of a position."""

    BUY = 1
    SELL = 2


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings with code, a path and text."""

    scale: float = 2.0
    shape: Callable[[float], float] = abs
    folder: Path = Path("data")
    names: tuple[str, ...] = ("a", "b")


@dataclasses.dataclass(slots=True)
class Account:
    """Held assets."""

    cash: float = 100.0
    lots: list[int] = dataclasses.field(default_factory=list)
    side: Side = Side.BUY


class Quote(NamedTuple):
    """Two prices."""

    bid: float
    ask: float


class Memory:
    """A plain object."""

    def __init__(self) -> None:
        self.seen = 0


class Rich(RandomWalk):
    """Holds an object of each kind, and changes all that can change."""

    def __init__(self) -> None:
        super().__init__()
        self.config = Config()
        self.log = logging.getLogger("rich")
        self.account = Account()
        self.memory = Memory()
        self.quote = Quote(1.0, 2.0)
        self.recent: deque[float] = deque(maxlen=3)
        self.visited: set[int] = set()
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.streams = [np.random.default_rng(seed) for seed in range(2)]
        self.when = datetime.datetime(2026, 1, 2, 3, 4, 5)
        self.pause = datetime.timedelta(seconds=1.5)
        self.price = Decimal("1.10")
        self.path = Path("first")
        self.shared = self.account.lots
        self.handlers = {"shape": self.config.shape, "space": self.action_space}
        self.odd = {"$set": [1]}
        self.me = {"env": self}

    def step(self, action: Any) -> Any:
        result = super().step(action)
        drawn = float(self.streams[1].random())
        self.account.cash += drawn
        self.account.lots.append(len(self.visited))
        self.account.side = Side.SELL
        self.config = dataclasses.replace(self.config, scale=drawn)
        self.memory.seen += 1
        self.quote = Quote(drawn, 2 * drawn)
        self.recent.append(drawn)
        self.visited.add(self.memory.seen)
        self.counts["steps"] += 1
        self.when += self.pause
        self.price += 1
        self.path = Path("second")
        return result

    def reported(self) -> list[Any]:
        account = (self.account.cash, list(self.account.lots), self.account.side)
        held = [self.config, self.memory.seen, self.quote, self.recent, self.visited]
        return [account, *held, self.counts, self.when, self.price, self.path,
                self.streams[1].random()]  # fmt: skip


def _through_a_file(state: Any) -> Any:
    store = ArrayStore({})
    return from_json_value(to_json_value(portable(state), "state", store), store)


def test_objects_of_every_kind_come_back_from_plain_values() -> None:
    env = Rich()
    env.reset(seed=1)
    for _ in range(5):
        env.step(ACTION)
    state = _through_a_file(env.state_dict())
    fresh = Rich()
    fresh.reset(seed=2)

    fresh.load_state_dict(state)

    assert fresh.reported() == env.reported()
    assert fresh.step(ACTION) == env.step(ACTION)
    assert fresh.reported() == env.reported()
    assert fresh.recent.maxlen == 3
    assert fresh.counts["never"] == 0
    assert fresh.shared is fresh.account.lots
    assert fresh.me["env"] is fresh
    assert fresh.handlers["space"] == fresh.action_space
    assert fresh.odd == {"$set": [1]}


def test_spaces_by_agent_are_no_values_and_go_on_sampling_where_they_were() -> None:
    env = Duel()
    env.reset(seed=1)
    env.action_spaces["north"].sample()
    state = _through_a_file(env.state_dict())
    expected = env.action_spaces["north"].sample()
    fresh = Duel()

    fresh.load_state_dict(state)

    assert "action_spaces" not in state["values"]
    assert np.array_equal(fresh.action_spaces["north"].sample(), expected)


def test_what_no_file_can_keep_is_named_with_its_remedy() -> None:
    env: Any = RandomWalk()
    env.ratio = {"of": [Fraction(1, 3)]}

    with pytest.raises(StateError, match=r"RandomWalk\.ratio\['of'\]\[0\] \(Fraction\).*`state_ex"):
        portable(env.state_dict())


def test_what_refers_to_itself_is_named() -> None:
    env: Any = RandomWalk()
    env.loop = []
    env.loop.append(env.loop)

    with pytest.raises(StateError, match=r"RandomWalk\.loop\[0\] \(list\) refers to itself"):
        portable(env.state_dict())


def test_an_object_whose_class_the_env_does_not_tell_is_refused_and_changes_nothing() -> None:
    env: Any = RandomWalk()
    env.reset(seed=1)
    env.account = Account()
    state = portable(env.state_dict())
    fresh: Any = RandomWalk()
    fresh.reset(seed=2)
    fresh.account = None
    before = fresh.state_dict()

    with pytest.raises(StateError, match=r"RandomWalk\.account is of type NoneType, but the state"):
        fresh.load_state_dict(state)

    assert fresh.account is None
    assert fresh.state_dict()["generators"] == before["generators"]


@pytest.mark.parametrize(
    "damage",
    [
        Placeholder("fields", {"__class__": 1}),
        Placeholder("fields", {"a b": 1}),
        Placeholder("fields", 3),
        Placeholder("mapping", {}),
        Placeholder("member", "__class__"),
        Placeholder("same", 10**6),
        Placeholder("unknown"),
        {Placeholder("fixed")},
    ],
)
def test_a_damaged_state_is_refused_and_calls_nothing(damage: Any) -> None:
    env = Rich()
    env.reset(seed=1)
    state = portable(env.state_dict())
    state["values"]["account"] = damage
    before = portable(env.state_dict())

    with pytest.raises(StateError):
        env.load_state_dict(state)

    assert portable(env.state_dict())["values"]["recent"] == before["values"]["recent"]
