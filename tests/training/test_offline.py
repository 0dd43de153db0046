"""IQL, CQL and BC: losses by hand, learning from records alone, files, and masks."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]
from torch import Tensor

from sekai.error import SpaceError
from sekai.policy.files import ModelFileError
from sekai.policy.native import NativePolicy
from sekai.spaces import Box, MultiDiscrete
from sekai.training import (
    BC,
    CQL,
    DQN,
    IQL,
    SAC,
    Checkpoint,
    EarlyStopping,
    Evaluate,
    ReplayDataset,
    latest_checkpoint,
    load_policy,
)
from sekai.training.cql import conservative_penalty
from sekai.training.iql import expectile_loss
from sekai.training.off_policy import Transitions
from sekai.training.recording import RandomPolicy
from sekai.training.training_envs import make_training_envs, play
from tests.training.barred import SEVERAL, Barred, BarredBatch
from tests.training.optima.batch import vector
from tests.training.optima.steer import Steer
from tests.training.optima.table import PLACES, Table

OFFLINE: list[Any] = [BC, IQL, CQL]
every_algorithm = pytest.mark.parametrize("kind", OFFLINE, ids=lambda kind: kind.__name__)
SMALL: dict[str, Any] = {"policy": {"net_arch": (8,)}, "batch_size": 16, "steps_per_iteration": 5}

Make = Callable[[], ReplayDataset]
RECORDS: dict[str, Make] = {
    "numbers": lambda: ReplayDataset.collect(vector(Steer(4)), "random", 60),
    "choices": lambda: ReplayDataset.collect(vector(Table(4)), "random", 60),
    "portfolio": lambda: ReplayDataset.collect("Portfolio-v0", "random", 24, num_envs=2),
    "market": lambda: ReplayDataset.collect("Trading-v0", "random", 24, num_envs=2),
}


def _agent(kind: Any, records: str = "numbers", **changes: Any) -> Any:
    return kind(RECORDS[records](), **{"seed": 3, **SMALL, **changes})


def _weights(agent: Any) -> Tensor:
    states = [agent.network.state_dict()]
    states += [target.state_dict() for target, _ in agent._target_pairs().values()]
    return torch.cat([part.double().flatten() for state in states for part in state.values()])


def _batch(agent: Any, rows: int = 6) -> Transitions:
    drawn = agent.dataset.steps_at(torch.arange(rows))
    return Transitions(
        agent._inputs(drawn["observation"]),
        drawn["action"],
        agent._inputs(drawn["next"]),
        agent.scaler(drawn["reward"]).unsqueeze(-1) if agent.scaler else drawn["reward"],
        drawn["terminated"].unsqueeze(-1),
    )


@pytest.mark.parametrize("expectile", [0.1, 0.5, 0.7, 0.95])
def test_the_expectile_loss_is_least_where_a_numeric_minimiser_finds_it(expectile: float) -> None:
    values = np.random.default_rng(0).gamma(2.0, size=200)

    def loss(estimate: float) -> float:
        return float(expectile_loss(torch.from_numpy(values - estimate), expectile).mean())

    found = minimize_scalar(loss, bounds=(0.0, 10.0), method="bounded", options={"xatol": 1e-9}).x
    # First-order condition: weighted gains equal weighted losses.
    above, below = values[values > found] - found, found - values[values < found]
    assert expectile * above.sum() == pytest.approx((1 - expectile) * below.sum(), rel=1e-5)
    if expectile == 0.5:
        assert found == pytest.approx(values.mean(), abs=1e-6)
    assert loss(2.0) == pytest.approx(
        np.mean(np.where(values > 2.0, expectile, 1 - expectile) * (values - 2.0) ** 2)
    )


def test_losses_of_iql_are_those_computed_by_hand() -> None:
    agent = _agent(IQL, "choices", expectile=0.8, temperature=2.0, max_weight=1.5, gamma=0.9)
    # The weights of targets and critics differ, so that a mix-up is seen.
    with torch.no_grad():
        for weights in agent.target_critics.parameters():
            weights.mul_(1.3).add_(0.05)
    batch = _batch(agent)
    network, taken = agent.network, batch.actions[:, 0].numpy()

    losses = agent._loss(batch)

    with torch.no_grad():
        hot = torch.eye(3)[batch.actions[:, 0]]
        old = [c(batch.observations, hot)[:, 0].numpy() for c in agent.target_critics]
        new = [c(batch.observations, hot)[:, 0].numpy() for c in network.critics]
        value = network.critic(batch.observations, preprocessed=True)[:, 0].numpy()
        after = network.critic(batch.next_observations, preprocessed=True)[:, 0].numpy()
        logits = network.actor(batch.observations, preprocessed=True)[0].double().numpy()
    gain = np.minimum(*old) - value
    target = batch.rewards[:, 0].numpy() + 0.9 * after
    chance = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    logs = np.log(chance[np.arange(6), taken])
    weight = np.minimum(np.exp(2.0 * gain), 1.5)
    expected = {
        "loss_value": np.mean(np.where(gain < 0, 0.2, 0.8) * gain**2),
        "loss_qvalue": sum(np.mean((q - target) ** 2) for q in new),
        "loss_actor": -np.mean(weight * logs),
    }
    found = {name: float(losses[name].detach()) for name in expected}
    assert found == pytest.approx(expected, rel=1e-4)
    assert (gain > 0).any()


def test_the_penalty_is_the_soft_maximum_less_the_recorded_value() -> None:
    values = torch.tensor([[1.0, 2.0, -torch.inf], [0.0, 0.0, 0.0]])

    found = conservative_penalty(values, torch.tensor([2.0, 0.0]))

    expected = [math.log(math.exp(1) + math.exp(2)) - 2.0, math.log(3.0)]
    assert found.tolist() == pytest.approx(expected)


def test_the_penalty_of_discrete_cql_sums_over_allowed_actions() -> None:
    agent = _agent(CQL, "choices", cql_alpha=0.7)
    batch = _batch(agent)
    masks = np.asarray(batch.observations["action_mask"]) != 0

    found = float(agent._loss(batch)["loss_conservative"].detach())

    values = agent.network.values(batch.observations).detach().numpy()[..., 0].astype(float)
    soft = [math.log(np.exp(row[mask]).sum()) for row, mask in zip(values, masks, strict=True)]
    taken = values[np.arange(6), batch.actions[:, 0]]
    assert not masks.all()
    assert found == pytest.approx(0.7 * np.mean(soft - taken), rel=1e-5)


def test_the_sampled_penalty_of_cql_estimates_the_integral() -> None:
    # Wide, so that the samples of the policy reach all actions.
    policy = {"net_arch": (8,), "std_init": 1.0}
    agent = _agent(CQL, n_action_samples=8_000, policy=policy)
    batch = _batch(agent, 3)
    with torch.no_grad():
        # Values that differ much between actions, and critics that differ.
        for index, critic in enumerate(agent.network.critics):
            critic.value.weight.mul_(100.0 * (index + 1))

    with agent.randomness, torch.no_grad():
        found = float(agent._sampled_penalty(batch))

    grid = torch.linspace(-1.0, 1.0, 2_001).unsqueeze(-1)
    expected = 0.0
    for critic in agent.network.critics:
        for row in range(3):
            seen = {name: part[row : row + 1] for name, part in batch.observations.items()}
            with torch.no_grad():
                values = critic({n: p.expand(len(grid), -1) for n, p in seen.items()}, grid)
                taken = float(critic(seen, batch.actions[row : row + 1]))
            integral = np.trapezoid(values[:, 0].double().exp().numpy(), grid[:, 0].numpy())
            expected += (math.log(integral) - taken) / 3
    assert found == pytest.approx(expected, abs=0.02)
    assert abs(expected) > 0.3


@pytest.mark.parametrize("records", ["numbers", "choices"])
def test_the_loss_of_cloning_is_the_negative_log_likelihood(records: str) -> None:
    agent = _agent(BC, records)
    batch = _batch(agent)

    found = float(agent._loss(batch)["loss"].detach())

    parameters = agent.network.actor(batch.observations, preprocessed=True)
    first = parameters[0].detach().double().numpy()
    taken = batch.actions[:, 0].double().numpy()
    if records == "choices":
        allowed = np.asarray(batch.observations["action_mask"]) != 0
        shares = np.where(allowed, np.exp(first), 0.0)
        logs = np.log(shares[np.arange(6), taken.astype(int)] / shares.sum(1))
    else:
        std = parameters[1].detach().double().numpy()[:, 0]
        logs = -0.5 * ((taken - first[:, 0]) / std) ** 2 - np.log(std * math.sqrt(2 * math.pi))
    assert found == pytest.approx(-logs.mean(), rel=1e-5)


class _Best:
    """The best policy of `Steer`."""

    def predict_batch(self, observations: Any, deterministic: bool = True) -> Any:
        return Steer.best(observations)


def _steered(policy: Any) -> float:
    return float(play(policy, vector(Steer(64)), 256, 5).returns.mean())


def _steering_records(seed: int) -> tuple[ReplayDataset, float]:
    """Records of a random and a half-trained policy, and the share of the optimum of the latter."""
    half = SAC(
        vector(Steer(16)), seed=seed, learning_starts=64, batch_size=64, gamma=0.8,
        learning_rate=2e-3, steps_per_iteration=4, policy={"net_arch": (32,)},
    ).fit(640)  # fmt: skip
    parts = [
        ReplayDataset.collect(vector(Steer(32)), policy, 2_000, seed=seed)
        for policy in ("random", half)
    ]
    return ReplayDataset.concatenate(parts), _steering_share(half)


def _steering_share(policy: Any) -> float:
    """Share of the optimum: 0 is random, 1 the best there is."""
    worst, best = _steered(RandomPolicy(Steer.action_space, 0)), _steered(_Best())
    return (_steered(policy) - worst) / (best - worst)


STEERING: dict[str, Any] = {"policy": {"net_arch": (32,)}, "learning_rate": 2e-3}
VALUED: dict[str, Any] = {**STEERING, "gamma": 0.8, "tau": 0.02}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 9))]
)
def test_continuous_policies_beat_their_records_and_cloning(seed: int) -> None:
    dataset, half = _steering_records(seed)

    clone = _steering_share(BC(dataset, seed=seed, **STEERING).fit(300))
    greedy: dict[str, Any] = {"expectile": 0.9, "temperature": 10.0, "batch_size": 64}
    implicit = _steering_share(IQL(dataset, seed=seed, **VALUED, **greedy).fit(400))
    doubtful: dict[str, Any] = {"cql_alpha": 0.3, "n_action_samples": 3, "batch_size": 64}
    conservative = _steering_share(CQL(dataset, seed=seed, **VALUED, **doubtful).fit(300))

    assert half < 0.7, "the policy in the records is not half-trained"
    assert min(implicit, conservative) > max(0.85, half + 0.2, clone + 0.2)


def _table_share(choices: NDArray[np.float64], gamma: float = 0.6) -> float:
    """Share of the optimum of probabilities by place and move: 0 is random, 1 the best there is."""
    table = Table(1)

    def value(shares: NDArray[np.float64]) -> float:
        moves = np.zeros((PLACES, PLACES))
        np.add.at(moves, (np.arange(PLACES)[:, None], table.following), shares)
        paid = -(table.costs * shares).sum(1)
        return float(np.linalg.solve(np.eye(PLACES) - gamma * moves, paid).mean())

    random = table.allowed / table.allowed.sum(1, keepdims=True)
    best = np.eye(3)[np.nanargmax(table.values(gamma), axis=1)]
    return (value(choices) - value(random)) / (value(best) - value(random))


def _moves(policy: Any) -> NDArray[np.float64]:
    seen = np.eye(PLACES, dtype=np.float32)
    moves: NDArray[np.float64] = np.eye(3)[
        policy.predict_batch(seen, action_mask=list(Table(1).allowed))
    ]
    return moves


TABLED: dict[str, Any] = {"learning_rate": 2e-3, "batch_size": 128, "policy": {"net_arch": (32,)}}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_discrete_policies_beat_their_records_and_cloning(seed: int) -> None:
    half = DQN(
        vector(Table(8)), seed=seed, gamma=0.6, learning_starts=32, batch_size=32,
        learning_rate=5e-3, steps_per_iteration=4, target_update_interval=32,
        exploration_fraction=1.0, exploration_final_eps=0.2,
        policy={"net_arch": (32,), "norm_obs": False},
    ).fit(96)  # fmt: skip
    dataset = ReplayDataset.concatenate(
        [
            ReplayDataset.collect(vector(Table(16)), policy, 1_500, seed=number)
            for number, policy in enumerate(list[Any](["random", half]))
        ]
    )
    learned = {**TABLED, "gamma": 0.6, "tau": 0.02}

    clone = _table_share(_moves(BC(dataset, seed=seed, **TABLED).fit(200)))
    greedy: dict[str, Any] = {"expectile": 0.9, "temperature": 10.0}
    implicit = _table_share(_moves(IQL(dataset, seed=seed, **learned, **greedy).fit(400)))
    conservative = _table_share(_moves(CQL(dataset, seed=seed, **learned, cql_alpha=0.1).fit(300)))

    assert _table_share(_moves(half)) < 0.7, "the policy in the records is not half-trained"
    assert min(implicit, conservative) > max(0.9, clone + 0.2)


def test_a_larger_penalty_lowers_the_values_of_actions_that_nobody_took() -> None:
    dataset = RECORDS["numbers"]()
    # All records move up; what moving down is worth is a guess.
    up = with_actions(dataset, np.abs(dataset.actions))
    gaps = []
    for cql_alpha in (0.0, 5.0):
        agent = CQL(up, seed=1, cql_alpha=cql_alpha, **{**SMALL, "learning_rate": 1e-2}).fit(60)
        drawn = agent._inputs(up.observed())
        rows = len(up) + len(up.ends)
        with torch.no_grad():
            above, below = (
                agent.network.critics[0](drawn, torch.full((rows, 1), sign)).mean()
                for sign in (0.7, -0.7)
            )
        gaps.append(float(above - below))

    assert gaps[1] > gaps[0] + 0.5


def with_actions(dataset: ReplayDataset, actions: NDArray[Any]) -> ReplayDataset:
    """The same data set with other actions."""
    return ReplayDataset(
        dataset.observation_space,
        dataset.action_space,
        observations=dataset.observations,
        actions=actions,
        rewards=dataset.rewards,
        terminated=dataset.terminated,
        truncated=dataset.truncated,
    )


@every_algorithm
@pytest.mark.parametrize("records", ["numbers", "choices"])
def test_the_seed_decides_the_bytes_and_a_resumed_training_is_one_in_a_piece(
    kind: Any, records: str, tmp_path: Path
) -> None:
    changes = {"learning_rate_schedule": "linear"}
    straight = _agent(kind, records, **changes).fit(20)
    half = _agent(kind, records, **changes).fit(10, total=20)
    path = half.save(tmp_path / "half.safetensors")

    resumed = kind.resume(path, 10, dataset=RECORDS[records]())

    again = _agent(kind, records, **changes).fit(20).save(tmp_path / "again.safetensors")
    assert straight.save(tmp_path / "one.safetensors").read_bytes() == again.read_bytes()
    assert torch.equal(_weights(resumed), _weights(straight))
    assert not torch.equal(_weights(resumed), _weights(half))
    other = _agent(kind, records, seed=4, **changes).fit(20)
    assert not torch.equal(_weights(other), _weights(straight))


@every_algorithm
def test_training_resumes_on_the_data_set_it_began_on(kind: Any, tmp_path: Path) -> None:
    path = _agent(kind).fit(5).save(tmp_path)
    other = ReplayDataset.collect(vector(Steer(4)), "random", 60, seed=9)

    with pytest.raises(ModelFileError, match="another data set; pass that one, or use"):
        kind.resume(path, dataset=other)
    with pytest.raises(ModelFileError, match=r"pass dataset=\.\.\., or use load_policy"):
        kind.resume(path)
    with pytest.raises(ModelFileError, match="another observation_space"):
        kind.load(path, RECORDS["choices"]())

    loaded = kind.load(path, other)
    assert loaded.steps == 5
    loaded.fit(5)


@every_algorithm
@pytest.mark.parametrize("records", RECORDS)
def test_a_policy_from_a_file_acts_as_its_agent(kind: Any, records: str, tmp_path: Path) -> None:
    agent = _agent(kind, records).fit(5)
    path = agent.save(tmp_path, training=False)
    seen = _first_rows(agent.dataset)

    native: Any = load_policy(path)
    torch_policy: Any = load_policy(path, backend="torch")

    expected = agent.predict_batch(seen)
    assert np.array_equal(torch_policy.predict_batch(seen), expected)
    np.testing.assert_allclose(native.predict_batch(seen), expected, atol=1e-5)
    is_q_network = kind is CQL and records in ("choices", "market")
    assert isinstance(native, NativePolicy) != is_q_network


def _first_rows(dataset: ReplayDataset) -> Any:
    seen = dataset.observations
    return {k: v[:4] for k, v in seen.items()} if isinstance(seen, dict) else seen[:4]


@pytest.mark.parametrize("kind", [BC, IQL])
def test_several_choices_and_their_masks_are_learned(kind: Any) -> None:
    def make() -> Barred:
        return Barred(SEVERAL)

    dataset = ReplayDataset.collect(make, "random", 200, num_envs=4)

    agent = kind(dataset, **SMALL).fit(10)

    assert dataset.action_masks is not None
    # The env refuses what a mask forbids.
    for deterministic in (True, False):
        play(agent, make_training_envs(make, 4), 12, seed=2, deterministic=deterministic)


@every_algorithm
def test_masks_are_never_violated(kind: Any) -> None:
    dataset = ReplayDataset.collect(vector(BarredBatch(16)), "random", 400)
    agent = kind(dataset, **SMALL).fit(20, [Evaluate(vector(BarredBatch(16)), every=1)])
    judged = BarredBatch(64)

    for deterministic in (True, False):
        play(agent, vector(judged), 512, seed=1, deterministic=deterministic)

    assert judged.actions >= 8_000


def test_training_with_callbacks_stops_saves_and_evaluates(tmp_path: Path) -> None:
    scores: list[float] = []

    class Scores(Evaluate):
        def after_iteration(self, agent: Any, metrics: Any) -> None:
            assert "episode_return" not in metrics
            scores.append(metrics["eval/return"])

    agent = _agent(IQL)
    agent.fit(
        200,
        [
            Scores(vector(Steer(8)), every=1, episodes=8),
            EarlyStopping("loss_qvalue", patience=3, min_delta=1e9),
            Checkpoint(tmp_path, every=1),
        ],
    )

    assert len(scores) == 4
    assert agent.steps == 20
    assert latest_checkpoint(tmp_path) is not None


@every_algorithm
def test_settings_are_typed_keywords_with_their_texts(kind: Any) -> None:
    parameters = list(inspect.signature(kind).parameters)
    description = inspect.getdoc(kind) or ""

    assert parameters[:3] == ["dataset", "policy", "seed"]
    assert not {"n_envs", "buffer_size", "learning_starts"} & {*parameters}
    assert ("gamma" in parameters) == (kind is not BC)
    for field in dataclasses.fields(kind.settings_type):
        assert f"    {field.name}: " in description, field.name
        assert f"    {field.name}:  Default" not in description, field.name
    with pytest.raises(ValueError, match="has no setting 'n_envs'"):
        _agent(kind, n_envs=2)
    with pytest.raises(TypeError, match=r"the dataset comes first, got the policy 'MlpPolicy'"):
        kind("MlpPolicy", RECORDS["numbers"]())
    with pytest.raises(TypeError, match="is trained on a ReplayDataset or the path of one"):
        kind(vector(Steer(2)))


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (IQL, {"expectile": 1.0}, "expectile must be above 0 and below 1"),
        (IQL, {"temperature": -1.0}, "temperature must be finite, 0 or more"),
        (IQL, {"max_weight": 0.0}, "max_weight must be finite and above 0"),
        (IQL, {"beta": 3.0}, "did you mean 'temperature'"),
        (IQL, {"tau": 0.0}, "tau must be above 0 and at most 1"),
        (CQL, {"cql_alpha": -0.1}, "cql_alpha must be finite, 0 or more"),
        (CQL, {"conservative_weight": 1.0}, "did you mean 'cql_alpha'"),
        (CQL, {"n_action_samples": 0}, "n_action_samples must be a whole number"),
        (BC, {"batch_size": 0}, "batch_size must be a whole number"),
        (BC, {"gamma": 0.9}, "BCSettings has no setting 'gamma'"),
    ],
)
def test_invalid_settings_are_refused(kind: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _agent(kind, **change)


def test_cql_refuses_actions_that_it_cannot_sum_over() -> None:
    several = ReplayDataset.collect(lambda: Barred(SEVERAL), "random", 20, num_envs=2)
    assert isinstance(several.action_space, MultiDiscrete)
    assert isinstance(RECORDS["numbers"]().action_space, Box)

    with pytest.raises(SpaceError, match="CQL needs Discrete or bounded actions.*use IQL or BC"):
        CQL(several)
