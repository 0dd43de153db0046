import numpy as np
import pytest

from sekai.evaluation import BaselineComparison, Episode, Interval, PolicyOutcome
from sekai.evaluation.flags import flags_of

STEPS = 100


def episode(
    seed: int, drift: float = 0.0, *, same: bool = False, cost: float = 0.0, start: int = 0
) -> Episode:
    rng = np.random.default_rng(1000 if same else seed)
    returns = rng.normal(drift, 0.01, STEPS)
    days = np.arange(start, start + STEPS + 1).astype("timedelta64[D]")
    return Episode(
        seed=seed,
        rewards=returns,
        equity=1e5 * np.append(1.0, np.cumprod(1.0 + returns)),
        times=np.datetime64("2020-01-01", "ns") + days,
        actions=rng.normal(size=(STEPS, 2)),
        turnover=rng.uniform(0.0, 0.1, STEPS),
        costs={"commission": np.full(STEPS, cost)},
    )


def outcome(name: str, episodes: list[Episode]) -> PolicyOutcome:
    return PolicyOutcome(name=name, metrics={}, by_seed={}, episodes=episodes)


def several(drift: float = 0.002, **options: float) -> list[Episode]:
    return [episode(seed, drift, start=200 * seed, **options) for seed in range(8)]  # type: ignore[arg-type]


def found(agent: list[Episode], *others: list[Episode], low: float = 1.0) -> set[str]:
    baselines = [outcome(f"other {place}", one) for place, one in enumerate(others)]
    interval = Interval(value=low + 1.0, low=low, high=low + 2.0)
    ahead = [
        BaselineComparison(
            baseline=one.name, metric="sharpe", difference=interval, p_value=0.0, wins=1.0
        )
        for one in baselines
    ]
    return {one.name for one in flags_of(outcome("agent", agent), baselines, ahead, False)}


OTHERS = [[episode(seed + 50, start=200 * seed) for seed in range(8)] for _ in range(3)]


def test_nothing_is_said_of_a_sound_agent() -> None:
    assert found(several(), *OTHERS) == set()


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("losing", several(-0.004)),
        ("implausible", several(0.02)),
        ("few_seeds", several()[:3]),
        ("overlapping_episodes", [episode(seed, 0.002) for seed in range(8)]),
    ],
)
def test_each_flag_is_raised_where_it_belongs(name: str, agent: list[Episode]) -> None:
    others = [one[: len(agent)] for one in OTHERS]
    if name == "overlapping_episodes":
        others = [[episode(seed + 50) for seed in range(8)]] * 3
    assert found(agent, *others) == {name}


def test_the_length_of_the_history_of_shared_dates_is_stated() -> None:
    agent = outcome("agent", [episode(seed, 0.002) for seed in range(8)])
    messages = {flag.name: flag.message for flag in flags_of(agent, [], [], True)}

    assert messages["overlapping_episodes"] == (
        "8 episodes share dates and count as one history of 101 rows; metrics of returns "
        "are of that history"
    )


def test_costs_that_eat_all_gains_are_told() -> None:
    assert "turnover_blow_up" in found(several(-0.002, cost=1000.0), *OTHERS)
    assert "turnover_blow_up" not in found(several(-0.002, cost=0.1), *OTHERS)


def test_few_baselines_are_told() -> None:
    assert found(several(), *OTHERS[:2]) == {"few_baselines"}


def test_who_is_not_surely_ahead_is_told() -> None:
    assert found(several(), *OTHERS, low=-0.1) == {"not_ahead"}
    assert found(several(), *OTHERS, low=float("nan")) == {"not_ahead"}


def test_a_significantly_worse_agent_is_called_worse() -> None:
    interval = Interval(value=-0.2, low=-0.3, high=-0.1)
    unsure = Interval(value=0.1, low=-0.3, high=0.4)
    baselines = [outcome(f"other{index}", each) for index, each in enumerate(OTHERS)]
    compared = [
        BaselineComparison(
            baseline=each.name, metric="sharpe", difference=known, p_value=p_value, wins=0.0
        )
        for each, known, p_value in zip(
            baselines, [interval, interval, unsure], [0.01, 0.02, 0.5], strict=True
        )
    ]
    (flag,) = flags_of(outcome("agent", several()), baselines, compared, False)

    assert flag.message == (
        "sharpe is significantly worse than that of other0, other1; "
        "not significantly better than that of other2"
    )


def test_the_same_account_is_a_clone() -> None:
    assert found(several(), several(), *OTHERS[1:]) == {"clone"}


def test_other_dates_make_a_comparison_worthless() -> None:
    moved = [episode(seed + 50, start=200 * seed + 1) for seed in range(8)]
    assert found(several(), moved, *OTHERS[1:]) == {"unequal_episodes"}
