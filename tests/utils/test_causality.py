"""Every leak in the book is caught, and its causal twin is not accused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.utils.checker import check_causal
from sekai.utils.perturbation import Stamped
from sekai.wrappers import NormalizeObservation, NormalizeReward
from tests.utils.markets import (
    FIRST,
    HOUR,
    PUBLICATION_LAG,
    ROWS,
    Bars,
    Data,
    Features,
    Floats,
    bars,
    column,
    delayed,
    forward_filled,
    market,
)


def full_sample_scaler(data: Data) -> Floats:
    close = data["close"]
    return np.asarray((close - close.mean(axis=0)) / close.std(axis=0))


def expanding_scaler(data: Data) -> Floats:
    close = data["close"]
    seen = [close[: row + 1] for row in range(len(close))]
    return np.stack([(part[-1] - part.mean(0)) / (part.std(0) + 1e-8) for part in seen])


def back_filled(data: Data) -> Floats:
    return column(forward_filled(data["gappy"][::-1])[::-1])


def only_forward_filled(data: Data) -> Floats:
    return column(forward_filled(data["gappy"]))


def survivors(data: Data) -> Floats:
    listed = data["listed"]
    survives = ~np.isnan(listed).any(axis=0)
    return np.asarray(np.where(survives, np.nan_to_num(listed), 0.0))


def listed_now(data: Data) -> Floats:
    return np.asarray(np.nan_to_num(data["listed"]))


def hour_labelled_by_its_open(data: Data) -> Floats:
    close = data["close"][:, 0]
    last = [min(row // HOUR * HOUR + HOUR - 1, len(close) - 1) for row in range(len(close))]
    return column(close[last])


def hour_that_has_closed(data: Data) -> Floats:
    close = data["close"][:, 0]
    last = [max((row + 1) // HOUR * HOUR - 1, 0) for row in range(len(close))]
    return column(close[last])


def merged_by_position(data: Data) -> Floats:
    sentiment = data["sentiment"]
    known = sentiment[~np.isnan(sentiment)]
    return column(np.concatenate([known, np.zeros(len(sentiment) - len(known))]))


def merged_by_time(data: Data) -> Floats:
    return column(np.nan_to_num(data["sentiment"]))


def unlagged_fundamentals(data: Data) -> Floats:
    return column(data["fundamental"].values)


def published_fundamentals(data: Data) -> Floats:
    return delayed(column(data["fundamental"].values), PUBLICATION_LAG)


def most_traded_of_all_time(data: Data) -> Floats:
    best = np.argsort(data["volume"].sum(axis=0))[-2:]
    return np.asarray(data["close"][:, np.sort(best)])


def most_traded_so_far(data: Data) -> Floats:
    totals = np.cumsum(data["volume"], axis=0)
    best = np.sort(np.argsort(totals, axis=1)[:, -2:], axis=1)
    return np.asarray(np.take_along_axis(data["close"], best, axis=1))


def revised_values(data: Data) -> Floats:
    return column(data["revised"].values)


def first_releases(data: Data) -> Floats:
    return column(data["released"])


def label_among_features(data: Data) -> Floats:
    close = data["close"][:, 0]
    return column(np.append(np.diff(np.log(close)), 0.0))


def past_return(data: Data) -> Floats:
    close = data["close"][:, 0]
    return column(np.append(0.0, np.diff(np.log(close))))


TWINS: dict[str, tuple[Features, Features]] = {
    "full-sample scaler": (full_sample_scaler, expanding_scaler),
    "back-fill": (back_filled, only_forward_filled),
    "dropped delisted assets": (survivors, listed_now),
    "higher timeframe labelled by its open": (hour_labelled_by_its_open, hour_that_has_closed),
    "merge on position": (merged_by_position, merged_by_time),
    "unlagged fundamentals": (unlagged_fundamentals, published_fundamentals),
    "future universe": (most_traded_of_all_time, most_traded_so_far),
    "revised data": (revised_values, first_releases),
    "label among features": (label_among_features, past_return),
}


@pytest.mark.parametrize("leaky", [pair[0] for pair in TWINS.values()], ids=list(TWINS))
def test_a_leaky_feature_is_caught_in_the_observation(leaky: Features) -> None:
    issues = check_causal(market(leaky), bars(), n_episodes=1)

    assert len(issues) == 1
    assert issues[0].startswith("ERROR: observation at ")
    assert "depends on data after time" in issues[0]


@pytest.mark.parametrize("causal", [pair[1] for pair in TWINS.values()], ids=list(TWINS))
@pytest.mark.parametrize("seed", [0, 1])
def test_its_causal_twin_is_not_accused(causal: Features, seed: int) -> None:
    assert check_causal(market(causal), bars(seed), seed=seed, n_episodes=1) == []


def test_a_filler_is_caught_however_few_times_are_tried() -> None:
    assert check_causal(market(back_filled), bars(), max_cuts=2) != []


def seen_close(data: Data) -> Env[Any, Any]:
    return Bars(past_return(data), data["close"][:, 0], fills_at_seen_close=True)


def test_a_fill_at_the_close_that_was_seen_is_caught() -> None:
    issues = check_causal(seen_close, bars())

    assert len(issues) == 1
    assert issues[0].startswith("ERROR: executed price at ")
    assert "was known when the decision was made" in issues[0]


def test_a_fill_at_the_seen_close_can_be_asked_for_by_name() -> None:
    assert check_causal(seen_close, bars(), allow_known_fills=True) == []


class RestingOrders(Bars):
    """Fills at a limit just below the close that was seen, if the next bar reaches it."""

    def step(self, action: int) -> Any:
        limit = 0.999 * float(self._prices[self._now])
        result = super().step(action)
        is_filled = bool(self._prices[self._now] <= limit)
        fill = {"fill_price": limit} if is_filled else {}
        info = {"time_index": result.info["time_index"], **fill}
        return type(result)(result.observation, 0.0, False, result.truncated, info)


def test_a_resting_order_may_fill_at_the_price_it_was_given() -> None:
    issues = check_causal(
        lambda data: RestingOrders(past_return(data), data["close"][:, 0]), bars()
    )

    assert issues == []


class PaysInAdvance(Bars):
    """Rewards the return of the bar after the one it shows."""

    def step(self, action: int) -> Any:
        result = super().step(action)
        ahead = min(self._now + 1, len(self._prices) - 1)
        reward = float(self._prices[ahead] - self._prices[self._now])
        return type(result)(result.observation, reward, False, result.truncated, result.info)


class MasksWhatWillFall(Bars):
    """Forbids to hold what falls on the next bar."""

    def _info(self) -> dict[str, Any]:
        ahead = min(self._now + 1, len(self._prices) - 1)
        rises = bool(self._prices[ahead] > self._prices[self._now])
        return {**super()._info(), "action_mask": np.array([1, rises], dtype=np.int8)}


class FillsAtTheNextLow(Bars):
    """Tells a fill price that a later bar will show."""

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "fill_price": float(self._prices[self._now :][:3].min())}


class StopsBeforeTheCrash(Bars):
    """Ends the episode before the worst bar of the whole sample."""

    def step(self, action: int) -> Any:
        result = super().step(action)
        is_next = self._now + 1 == int(np.argmin(self._prices))
        return type(result)(
            result.observation, result.reward, is_next, result.truncated, result.info
        )


class TellsTheFuture(Bars):
    """Puts the next price into the info."""

    def _info(self) -> dict[str, Any]:
        ahead = min(self._now + 1, len(self._prices) - 1)
        return {**super()._info(), "next": float(self._prices[ahead])}


@pytest.mark.parametrize(
    ("kind", "begins"),
    [
        (PaysInAdvance, "ERROR: reward at step"),
        (MasksWhatWillFall, "ERROR: action mask at"),
        (FillsAtTheNextLow, "ERROR: executed price at"),
        (StopsBeforeTheCrash, "ERROR: terminated at"),
        (TellsTheFuture, "WARNING: info at"),
    ],
)
def test_a_leak_is_caught_wherever_it_shows(kind: type[Bars], begins: str) -> None:
    issues = check_causal(lambda data: kind(past_return(data), data["close"][:, 0]), bars())

    assert any(issue.startswith(begins) for issue in issues), issues


class FittedScaler:
    """A normaliser that keeps its statistics in a state of its own."""

    def __init__(self, sample: Floats) -> None:
        self.mean = float(sample.mean())

    def state_dict(self) -> dict[str, float]:
        return {"mean": self.mean}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.mean = state["mean"]


def with_scaler(rows: int) -> Callable[[Data], Env[Any, Any]]:
    def make(data: Data) -> Env[Any, Any]:
        env = Bars(past_return(data), data["close"][:, 0])
        env.scaler = FittedScaler(data["close"][:rows])  # type: ignore[attr-defined]
        return env

    return make


def test_a_normaliser_that_was_fitted_on_the_future_is_caught() -> None:
    issues = check_causal(with_scaler(ROWS), bars())

    assert len(issues) == 1
    assert issues[0].startswith("ERROR: normalizer state at reset(seed=0)")


def test_a_normaliser_that_was_fitted_on_the_past_is_not_accused() -> None:
    assert check_causal(with_scaler(FIRST), bars()) == []


def test_normalising_wrappers_are_causal() -> None:
    def make(data: Data) -> Env[Any, Any]:
        return NormalizeReward(NormalizeObservation(market(past_return)(data)))

    assert check_causal(make, bars()) == []


def plain(array: Floats) -> Env[Any, Any]:
    return Bars(array, array[:, 0], tells_time=False, starts=1)


def test_the_clock_counts_steps_from_the_first_time() -> None:
    array = bars()["close"]

    assert check_causal(plain, array, time_of=lambda env, result: env._now) == []
    assert check_causal(plain, array, first_time=FIRST) == []


def test_a_clock_that_is_set_too_early_is_hinted_at() -> None:
    issues = check_causal(plain, bars()["close"])

    assert "first_time or time_of, or set info['time_index']" in issues[0]


def test_a_factory_that_ignores_its_data_proves_nothing() -> None:
    fixed = bars()

    issues = check_causal(lambda data: market(past_return)(fixed), bars())

    assert len(issues) == 1
    assert issues[0].startswith("WARNING: look-ahead not checked: no result")


def test_an_env_that_refuses_changed_data_proves_nothing() -> None:
    original = bars()["close"]

    def make(data: Floats) -> Env[Any, Any]:
        if not np.array_equal(data, original):
            raise ValueError("checksum mismatch")
        return Bars(data, data[:, 0])

    issues = check_causal(make, original)

    assert len(issues) == 1
    assert issues[0].startswith("WARNING: look-ahead not checked: env rejects perturbed data")
    assert "checksum mismatch" in issues[0]


def test_an_env_that_cannot_be_repeated_cannot_be_judged() -> None:
    rng = np.random.default_rng()

    issues = check_causal(lambda data: Bars(data + rng.normal(), data[:, 0]), bars()["close"])

    assert len(issues) == 1
    assert "look-ahead cannot be checked" in issues[0]


def test_a_factory_that_fails_is_an_error_and_not_an_exception() -> None:
    issues = check_causal(lambda data: 1 / 0, bars())

    assert len(issues) == 1
    assert issues[0].startswith("ERROR: env_factory(data) raised ZeroDivisionError")


def test_the_data_of_the_caller_is_not_touched() -> None:
    def greedy(data: Floats) -> Env[Any, Any]:
        data[:] = data.mean()
        return Bars(data, data[:, 0])

    array = bars()["close"]

    check_causal(greedy, array)

    assert np.array_equal(array, bars()["close"])


def test_names_that_are_fixed_stay_as_they_are() -> None:
    data = {"close": bars()["close"], "calendar": np.arange(ROWS)}

    def make(data: Data) -> Env[Any, Any]:
        assert np.array_equal(data["calendar"], np.arange(ROWS))
        return Bars(data["close"], data["close"][:, 0])

    assert check_causal(make, data, fixed=["calendar"]) == []


class OwnData:
    """Data of a type of its own."""

    def __init__(self, prices: Floats) -> None:
        self.prices = prices

    def perturb_after(self, time: int, rng: np.random.Generator) -> OwnData:
        prices = self.prices.copy()
        prices[time + 1 :] *= rng.uniform(0.5, 2.0, prices[time + 1 :].shape)
        return OwnData(prices)


def test_data_of_its_own_type_knows_how_to_change() -> None:
    data = OwnData(bars()["close"])

    causal = check_causal(lambda data: Bars(data.prices, data.prices[:, 0]), data)
    leaky = check_causal(
        lambda data: Bars(data.prices / data.prices.max(), data.prices[:, 0]), data
    )

    assert causal == []
    assert len(leaky) == 1
    assert leaky[0].startswith("ERROR: observation at reset(seed=0)")


def test_truncated_data_can_be_asked_for() -> None:
    array = bars()["close"]

    def of_length(data: Floats) -> Env[Any, Any]:
        return Bars(data * len(data), data[:, 0])

    assert check_causal(of_length, array) == []
    assert check_causal(of_length, array, kinds=["truncated"]) != []


def test_an_unknown_kind_of_change_is_refused() -> None:
    with pytest.raises(ValueError, match="kinds must be a non-empty subset of"):
        check_causal(plain, bars()["close"], kinds=["swapped"])


def test_stamps_must_fit_the_rows() -> None:
    with pytest.raises(ValueError, match="one entry per row, 3"):
        Stamped(np.zeros(3), np.arange(2))
