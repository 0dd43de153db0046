"""A state of a live episode needs no earlier rows, and continues bit for bit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sekai.data import Bar, MarketData, simulate_gbm
from sekai.error import StateError
from sekai.live.account import BrokerAccount
from sekai.live.episode import LiveEpisode
from sekai.market import Costs, Execution
from sekai.storage.strict_json import decode_record, encode_record
from tests.live.sessions import World, disrupted, follow, world

LONG = ["log_return", "volatility(20)", "rank(momentum(30))"]
RECURSIVE = ["log_return", "indicators(f_rsi_8, f_macd_signal)"]
IMPACT = Costs(impact=0.1, proportional=0.001)
CARRIED = Execution(sizing="decision", participation=1e-6, unfilled="carry", delay=1)


def with_actions() -> World:
    """Market with a dividend, a split, and assets that are delisted after missing rows."""
    data = simulate_gbm(assets=3, rows=120, seed=5)
    actions = np.full((120, 3, 2), np.nan)
    actions[70, 0, 0], actions[55, 1, 1], actions[90, 2, 1] = 1.0, 2.0, 0.5
    values = np.concatenate([data.values, actions], axis=2)
    values[80:, 1] = np.nan
    made = MarketData(
        data.times, data.assets, (*data.fields, "dividend", "split"), values, delist_after=5
    )
    return World(made, 50, {"features": LONG, "costs": IMPACT})


WORLDS = {
    "halts": disrupted(120, 50, features=LONG, costs=IMPACT, execution=CARRIED),
    "bounded": disrupted(120, 50, features=LONG, keep_rows=40),
    "recursive": disrupted(120, 50, features=RECURSIVE),
    "recursive, bounded": disrupted(120, 50, features=RECURSIVE, keep_rows=32),
    "actions": with_actions(),
    "benchmark": world(120, 50, benchmark="A001", reward={"benchmark_relative": 1.0}),
}


def played(place: World, episode: LiveEpisode, first: int, last: int) -> list[Any]:
    """Digests of the rows, with the fills that the env simulates."""
    digests = []
    for number, bar in enumerate(Bar.each(place.data, first, last), first):
        observed = episode.advance(bar, None)
        episode.action = follow(observed.observation)
        if number % 7 == 3:
            episode.set_traded("A002", number % 2 == 0)
        digests.append((observed.digest, episode.prices.tobytes()))
    return digests


@pytest.mark.parametrize("name", WORLDS)
def test_an_episode_restored_at_any_row_continues_bit_for_bit(name: str) -> None:
    place = WORLDS[name]
    rows = range(place.known + 1, len(place.data), 6)
    whole = LiveEpisode(place.env(), 0)
    states, wanted = [], list[Any]()
    for first, last in zip([place.known, *rows], [*rows, len(place.data)], strict=True):
        wanted += played(place, whole, first, last)
        states.append((last, encode_record(whole.state_dict())))

    for row, state in states[:-1]:
        again = LiveEpisode(place.env(), 0)
        again.load_state_dict(decode_record(state))

        assert again.row == row - place.known
        assert played(place, again, row, len(place.data)) == wanted[row - place.known :], row


def test_features_with_a_state_are_the_same_on_few_rows() -> None:
    first, second = WORLDS["recursive"], WORLDS["recursive, bounded"]

    wanted = played(first, LiveEpisode(first.env(), 0), 50, 120)

    assert played(second, LiveEpisode(second.env(), 0), 50, 120) == wanted


@pytest.mark.parametrize("name", ["halts", "bounded", "recursive", "actions"])
def test_the_size_of_a_state_does_not_grow_with_the_session(name: str) -> None:
    place = WORLDS[name]
    episode = LiveEpisode(place.env(), 0)
    sizes = []
    for first in (50, 85):
        played(place, episode, first, first + 35)
        sizes.append(len(encode_record(episode.state_dict())))

    assert sizes[1] < 1.1 * sizes[0]


def test_a_restored_episode_takes_the_reports_of_a_broker() -> None:
    place = WORLDS["halts"]
    account = BrokerAccount(cash=50_000.0, units={"A000": 100.0, "A001": 0.0, "A002": -3.0})
    bars = list(Bar.each(place.data, place.known))
    whole = LiveEpisode(place.env(), 0)
    for bar in bars[:10]:
        whole.advance(bar, account)
    again = LiveEpisode(place.env(), 0)
    again.load_state_dict(decode_record(encode_record(whole.state_dict())))

    for bar in bars[10:20]:
        assert again.advance(bar, account).digest == whole.advance(bar, account).digest


@pytest.mark.parametrize(
    "change", [{"costs": Costs(proportional=0.01)}, {"features": ["log_return"]}, {"lookback": 7}]
)
def test_a_state_of_another_env_is_refused_and_changes_nothing(change: dict[str, Any]) -> None:
    place = WORLDS["halts"]
    episode = LiveEpisode(place.env(), 0)
    played(place, episode, 50, 80)
    other = dataclasses.replace(place, settings={**place.settings, **change})
    again, fresh = LiveEpisode(other.env(), 0), LiveEpisode(other.env(), 0)

    with pytest.raises(StateError):
        again.load_state_dict(episode.state_dict())

    assert played(other, again, 50, 70) == played(other, fresh, 50, 70)


def test_a_row_that_is_refused_after_a_restore_changes_nothing() -> None:
    place = WORLDS["recursive"]
    whole = LiveEpisode(place.env(), 0)
    played(place, whole, 50, 80)
    again = LiveEpisode(place.env(), 0)
    again.load_state_dict(whole.state_dict())
    bad = next(Bar.each(place.data, 80))
    values = -np.asarray(bad.values)

    for episode in (whole, again):
        with pytest.raises(ValueError, match=r"\w"):
            episode.take(Bar(bad.time, values))

    assert played(place, again, 80, 120) == played(place, whole, 80, 120)
