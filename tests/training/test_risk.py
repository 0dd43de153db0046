"""Risk in the objective: what is best changes, and by how much is known."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sekai.training import A2C, PPO, Agent
from sekai.training.risk import CVaRRisk, DrawdownRisk, Risk, VolatilityRisk
from tests.training.arms import Arms, likes_risk

WIDE = partial(Arms, [(3.0,), (-1.0,)], (0.8,))
"""Mean 1 and variance 4 against 0.8 for sure: as good at a weight of 0.05."""

FALLING = partial(Arms, [(-1.0, 2.2)], (0.5, 0.5))
"""1.2 after a fall of 1, against 1: as good at a weight of 0.2."""

TAILED = partial(Arms, [(3.0,), (3.0,), (3.0,), (-2.0,)], (0.8,))
"""Mean 1.75 and worst quarter -2, against 0.8 for sure: as good at a weight of 0.95 / 3.75."""

SETTINGS: dict[str, Any] = {
    "n_envs": 16,
    "n_steps": 16,
    "learning_rate": 0.02,
    "gae_lambda": 1.0,
    "gamma": 1.0,
    "policy": {"net_arch": (8,), "norm_obs": False},
}


def trained(env: Any, steps: int, kind: type[Agent] = PPO, **settings: Any) -> Agent:
    parts = {"batch_size": 256} if kind is PPO else {}
    return kind(env, seed=3, **{**SETTINGS, **parts, **settings}).fit(steps)


@pytest.mark.parametrize(
    ("risk", "env", "even"),
    [("volatility", WIDE, 0.05), ("drawdown", FALLING, 0.2), ("cvar", TAILED, 0.95 / 3.75)],
)
def test_the_choice_turns_where_the_closed_form_says(risk: str, env: Any, even: float) -> None:
    brave = trained(env, 6_000, risk=risk, risk_weight=even / 3, risk_level=0.25)
    timid = trained(env, 6_000, risk=risk, risk_weight=even * 2.5, risk_level=0.25)

    assert likes_risk(brave)
    assert not likes_risk(timid)


@pytest.mark.parametrize("kind", [PPO, A2C])
@pytest.mark.parametrize("risk", ["volatility", "drawdown", "cvar"])
def test_a_risk_of_no_weight_changes_no_bit(kind: type[Agent], risk: str) -> None:
    without = trained(TAILED, 600, kind)
    weightless = trained(TAILED, 600, kind, risk=risk, risk_weight=0.0)
    weighty = trained(TAILED, 600, kind, risk=risk, risk_weight=0.9)

    assert _same(without, weightless)
    assert not _same(without, weighty)


def _same(left: Agent, right: Agent) -> bool:
    pairs = zip(
        left.network.state_dict().values(), right.network.state_dict().values(), strict=True
    )
    return all(torch.equal(one, other) for one, other in pairs)


Rewards = NDArray[np.float64]
rewards = arrays(np.float64, (12, 3), elements=st.floats(-5, 5))
ends = arrays(np.bool_, (12, 3))


def episodes(values: Rewards, done: NDArray[np.bool_]) -> list[list[tuple[int, int]]]:
    """The places of each episode that has ended."""
    found = []
    for env in range(values.shape[1]):
        begun: list[tuple[int, int]] = []
        for time in range(len(values)):
            begun.append((time, env))
            if done[time, env]:
                found.append(begun)
                begun = []
    return found


def shaped(risk: Risk, values: Rewards, done: NDArray[np.bool_], cut: int) -> Rewards:
    """What risk makes of it in two rollouts, through a state in between."""
    parts = [(values[:cut], done[:cut]), (values[cut:], done[cut:])]
    made = []
    for part, over in parts:
        made.append(risk.shaped(torch.from_numpy(part.copy()), torch.from_numpy(over)).numpy())
        risk.load_state_dict(risk.state_dict())
    return np.concatenate(made)


@given(values=rewards, done=ends, cut=st.integers(1, 11), weight=st.floats(0, 3))
def test_an_episode_pays_for_its_deepest_fall_once(
    values: Rewards, done: NDArray[np.bool_], cut: int, weight: float
) -> None:
    made = shaped(DrawdownRisk(weight, 3), values, done, cut)

    for places in episodes(values, done):
        path = np.cumsum([0.0] + [values[place] for place in places])
        fall = float(np.max(np.maximum.accumulate(path) - path))
        paid = sum(made[place] for place in places)
        assert paid == pytest.approx(path[-1] - weight * fall, abs=1e-9)


@given(values=rewards, weight=st.floats(0, 3))
def test_the_mean_falls_by_the_variance(values: Rewards, weight: float) -> None:
    made = VolatilityRisk(weight).shaped(torch.from_numpy(values), torch.zeros(12, 3).bool())

    assert float(made.mean()) == pytest.approx(values.mean() - weight * values.var(), abs=1e-9)


@given(values=rewards, weight=st.floats(0, 1), level=st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_the_mean_is_that_of_all_and_of_the_worst(
    values: Rewards, weight: float, level: float
) -> None:
    done = np.ones((12, 3), np.bool_)

    made = CVaRRisk(weight, level, 3).shaped(torch.from_numpy(values), torch.from_numpy(done))

    threshold = np.quantile(values, level)
    tail = threshold - np.maximum(threshold - values, 0).mean() / level
    expected = (1 - weight) * values.mean() + weight * (tail - threshold)
    assert float(made.mean()) == pytest.approx(expected, abs=1e-9)


@given(values=rewards, done=ends, cut=st.integers(1, 11))
def test_who_ends_above_the_quantile_pays_nothing(
    values: Rewards, done: NDArray[np.bool_], cut: int
) -> None:
    risk = CVaRRisk(1.0, 0.25, 3)

    made = shaped(risk, values, done, cut)

    assert (made[~done] == 0).all()
    paid = [
        (sum(values[at] for at in places), made[places[-1]]) for places in episodes(values, done)
    ]
    for value, price in paid:
        assert price <= 0
        assert price == 0 or value < max(risk.recent)


def test_settings_of_risk_are_checked() -> None:
    with pytest.raises(ValueError, match="risk must be one of"):
        PPO(WIDE, risk="variance")
    with pytest.raises(ValueError, match="risk_weight must be finite, from 0 to 1"):
        PPO(WIDE, risk="cvar", risk_weight=1.5)
    with pytest.raises(ValueError, match="risk_level must be above 0"):
        PPO(WIDE, risk="cvar", risk_level=0.0)
