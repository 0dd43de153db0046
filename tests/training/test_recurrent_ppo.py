"""Recurrent PPO: laws of its memory, bootstrapping, resuming, and a game that needs memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.policy.files import ModelFileError
from sekai.policy.observations import leaves_of
from sekai.spaces import Box, Discrete, MultiDiscrete, Simplex, Space
from sekai.training import PPO, RecurrentPPO, RecurrentPPOSettings, load_policy
from sekai.training.actions import ActionMap
from sekai.training.checkpoint import read_file, write_file
from sekai.training.policies.recurrent import EpisodePieces, RecurrentActorCritic
from sekai.training.recurrent_ppo import SequenceBatch
from sekai.training.training_envs import play
from tests.training.memory_game import MemoryGame
from tests.training.optima.batch import vector

pytestmark = pytest.mark.timeout(300)

SHOWN = Box(-1.0, 1.0, (3,), np.float32)
KINDS: dict[str, dict[str, Any]] = {
    "lstm": {},
    "gru": {"rnn_type": "gru"},
    "two layers": {"n_lstm_layers": 2},
    "shared": {"shared_lstm": True, "enable_critic_lstm": False},
    "critic without memory": {"enable_critic_lstm": False},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
SMALL: dict[str, Any] = {
    "lstm_hidden_size": 8,
    "n_steps": 12,
    "policy": {"net_arch": (8,)},
    "learning_rate": 1e-2,
}
TIMES, ENVS = 9, 5


def network(kind: str, actions: Space[Any] | None = None) -> RecurrentActorCritic:
    """Untrained network with a policy that is not uniform."""
    settings = RecurrentPPOSettings(**{**SMALL, **KINDS[kind]})
    torch.manual_seed(3)
    made = RecurrentActorCritic(leaves_of(SHOWN), ActionMap(actions or Discrete(4)), settings)
    with torch.no_grad():
        for weights in made.parameters():
            weights.add_(0.3 * torch.randn_like(weights))
    return made


def drawn(times: int = TIMES, envs: int = ENVS) -> tuple[Tensor, NDArray[np.bool_]]:
    """Observations and episode starts: times by envs."""
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=(times, envs, 3)).clip(-1, 1).astype(np.float32)
    starts = rng.random((times, envs)) < 0.3
    starts[0] = rng.random(envs) < 0.5
    return torch.from_numpy(numbers), starts


@torch.no_grad()
def unrolled(
    made: RecurrentActorCritic, seen: Tensor, starts: NDArray[np.bool_], state: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, values and last states, in one call."""
    pieces = EpisodePieces.of(starts, torch.device("cpu"))
    result = made.unroll({"observation": seen.flatten(0, 1)}, state, pieces)
    logits = result.distribution.logs[0]  # type: ignore[attr-defined]
    shape = seen.shape[:2]
    return logits.reshape(*shape, -1), result.values.reshape(shape), result.state


def started(made: RecurrentActorCritic, envs: int = ENVS) -> Tensor:
    return torch.randn(envs, made.state_size, generator=torch.Generator().manual_seed(7))


@every_kind
def test_a_sequence_gives_the_same_step_by_step_and_in_one_call(kind: str) -> None:
    made, (seen, starts) = network(kind), drawn()
    state = started(made)

    whole = unrolled(made, seen, starts, state)

    for time in range(TIMES):
        logits, values, state = unrolled(made, seen[[time]], starts[[time]], state)
        torch.testing.assert_close(logits[0], whole[0][time], rtol=0, atol=2e-6)
        torch.testing.assert_close(values[0], whole[1][time], rtol=0, atol=2e-6)
    torch.testing.assert_close(state, whole[2], rtol=0, atol=2e-6)


@every_kind
def test_acting_gives_the_actions_of_the_sequence(kind: str) -> None:
    made, (seen, starts) = network(kind, Box(-2.0, 2.0, (2,))), drawn()
    state = started(made)
    pieces = EpisodePieces.of(starts, torch.device("cpu"))
    with torch.no_grad():
        whole = made.unroll({"observation": seen.flatten(0, 1)}, state, pieces)
    means = whole.distribution.mode.reshape(TIMES, ENVS, -1)

    state = state[:, : made.body.state_size]
    for time in range(TIMES):
        state = state.masked_fill(torch.from_numpy(starts[time]).unsqueeze(-1), 0.0)
        with torch.no_grad():
            chosen, state = made.act({"observation": seen[time]}, state, deterministic=True)
        torch.testing.assert_close(chosen, means[time], rtol=0, atol=2e-6)


@every_kind
def test_a_batch_gives_the_same_as_its_envs_alone_in_any_order(kind: str) -> None:
    made, (seen, starts) = network(kind), drawn()
    state, order = started(made), torch.tensor([3, 0, 4, 1, 2])

    whole = unrolled(made, seen, starts, state)
    permuted = unrolled(made, seen[:, order], starts[:, order.numpy()], state[order])

    for part, other in zip(whole[:2], permuted[:2], strict=True):
        torch.testing.assert_close(part[:, order], other, rtol=0, atol=2e-6)
    for env in range(ENVS):
        one = slice(env, env + 1)
        alone = unrolled(made, seen[:, one], starts[:, one], state[one])
        torch.testing.assert_close(alone[0], whole[0][:, one], rtol=0, atol=2e-6)
        torch.testing.assert_close(alone[2], whole[2][one], rtol=0, atol=2e-6)


@every_kind
def test_nothing_before_an_episode_start_matters(kind: str) -> None:
    made, (seen, _) = network(kind), drawn()
    starts = np.zeros((TIMES, ENVS), np.bool_)
    starts[4, 1] = True
    other, state = seen.clone(), started(made)
    other[:4] += 0.5

    first = unrolled(made, seen, starts, state)
    second = unrolled(made, other, starts, state + 1.0)

    assert torch.equal(first[0][4:, 1], second[0][4:, 1])
    assert not torch.allclose(first[0][4:, 0], second[0][4:, 0])
    fresh = unrolled(made, seen[4:, 1:2], starts[4:, 1:2], torch.zeros(1, made.state_size))
    torch.testing.assert_close(first[0][4:, 1:2], fresh[0], rtol=0, atol=2e-6)


def game(envs: int = 4, *, ends: bool = True, delay: int = 3) -> Any:
    batch = MemoryGame(envs, delay=delay)
    batch.ends = ends
    # Episodes of the envs end at different times.
    batch.episode_steps += np.arange(envs) % 3
    return vector(batch)


def agent(**changes: Any) -> RecurrentPPO:
    return RecurrentPPO(game(), seed=3, **{**SMALL, **changes})


@pytest.mark.parametrize("sequence_length", [None, 5])
@every_kind
def test_values_and_log_probs_are_those_of_each_episode_step_by_step(
    kind: str, sequence_length: int | None
) -> None:
    changes = {**SMALL, **KINDS[kind], "sequence_length": sequence_length, "norm_reward": False}
    trained = RecurrentPPO(game(ends=False), seed=3, **{**changes, "gae_lambda": 0.0})
    trained.fit(48 * 2)
    learner = trained.learners[""]
    with trained.randomness:
        before = learner.memory.clone(), learner.starts.copy()
        trained._collect()
        batch = learner.batch()
    rollout, net = trained.rollout, trained.network
    assert len(rollout.cuts) > 2
    finals = {
        (step, int(env)): rows["observation"][[index]]
        for step, envs, rows in rollout.cuts
        for index, env in enumerate(envs)
    }
    seen, masks = rollout.observed["observation"], rollout.observed["action_mask"]

    @torch.no_grad()
    def one(row: Tensor, mask: Tensor, state: Tensor, start: bool) -> Any:
        shown = {"observation": row, "action_mask": mask}
        pieces = EpisodePieces.of(np.array([[start]]), torch.device("cpu"))
        return net.unroll(shown, state, pieces)

    for env in range(4):
        state, start = before[0][[env]], bool(before[1][env])
        for step in range(rollout.steps):
            now = one(seen[step, [env]], masks[step, [env]], state, start)
            start = bool(rollout.truncated[step, env])
            row = finals[step, env] if start else seen[step + 1, [env]]
            following = one(row, masks[step, [env]], now.state, False)
            reward = float(rollout.rewards[step, env])
            index = step * 4 + env
            target = reward + trained.settings.gamma * float(following.values)
            log_prob = now.distribution.log_prob(rollout.chosen[step, [env]])
            assert float(batch.returns[index]) == pytest.approx(target, abs=1e-5)
            assert float(learner.log_probs(batch)[index]) == pytest.approx(
                float(log_prob), abs=1e-5
            )
            state = now.state


@pytest.mark.parametrize("sequence_length", [None, 5])
def test_minibatches_hold_each_step_to_learn_from_once_with_its_log_prob(
    sequence_length: int | None,
) -> None:
    changes = {**SMALL, "sequence_length": sequence_length}
    trained = RecurrentPPO(game(), seed=3, learn_where=_odd, **changes).fit(48)
    learner = trained.learners[""]
    with trained.randomness:
        trained._collect()
        batch = learner.batch()
        parts = [learner.minibatch(batch, part) for part in trained._minibatches(batch)]

    assert len(parts) > 1
    assert sum(map(len, parts)) == 12 // 2 * 4
    for part in parts:
        assert isinstance(part, SequenceBatch)
        with torch.no_grad():
            distribution, _ = learner.evaluate(part)
        torch.testing.assert_close(
            distribution.log_prob(part.actions), part.log_probs, rtol=0, atol=2e-6
        )


def _odd(steps: Any) -> NDArray[np.bool_]:
    where = np.zeros(steps.rewards.shape, np.bool_)
    where[1::2] = True
    return where


def test_gradients_flow_back_through_the_sequence_and_not_before_it() -> None:
    made, (seen, _) = network("lstm"), drawn()
    seen.requires_grad_()
    starts = np.zeros((TIMES, ENVS), np.bool_)
    starts[3] = True
    pieces = EpisodePieces.of(starts, torch.device("cpu"))

    last = made.unroll({"observation": seen.flatten(0, 1)}, started(made), pieces).values[-1]
    last.backward()  # type: ignore[no-untyped-call]

    assert seen.grad is not None
    reached = seen.grad.abs().sum((1, 2)) > 0
    assert reached.tolist() == [False] * 3 + [True] * 6


@pytest.mark.parametrize("changes", [{}, {"rnn_type": "gru", "sequence_length": 5}])
def test_training_resumes_bit_for_bit_in_the_middle_of_episodes(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    straight = agent(**changes).fit(48 * 4)
    half = agent(**changes).fit(48 * 2, total=48 * 4)
    assert half.memory.any()
    half.save(tmp_path)

    resumed = RecurrentPPO.resume(tmp_path, 48 * 2, env=game())

    for name, weights in straight.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], weights), name
    assert torch.equal(resumed.memory, straight.memory)
    assert not torch.equal(half.memory, straight.memory)


@pytest.mark.parametrize(
    "actions", [Discrete(4), MultiDiscrete([3, 2]), Box(-2.0, 2.0, (2,)), Simplex(3)]
)
def test_samples_are_actions_of_each_kind_of_space(actions: Space[Any]) -> None:
    made, (seen, _) = network("gru", actions), drawn()

    with torch.no_grad():
        chosen, _ = made.act({"observation": seen[0]}, made.initial_state(ENVS), False)

    for action in ActionMap(actions).to_env(chosen):
        assert actions.contains(np.asarray(action, actions.dtype))


def test_the_caller_of_predict_carries_the_state(tmp_path: Path) -> None:
    trained = agent(n_lstm_layers=2).fit(48)
    policy: Any = load_policy(trained.save(tmp_path))
    seen = drawn()[0].numpy()
    observations = np.concatenate([seen, seen[..., :1]], -1).clip(0, 1)
    states: dict[str, Any] = {"agent": None, "policy": None, "batch": None}

    for time in range(4):
        row = observations[time, 0]
        action, states["agent"] = trained.predict(row, state=states["agent"])
        other, states["policy"] = policy.predict(row, state=states["policy"])
        many, states["batch"] = policy.predict_batch(observations[time], state=states["batch"])
        assert action == other == many[0]
        hidden, cell = states["policy"]
        assert hidden.shape == cell.shape == (2, 1, 8)
        assert np.array_equal(hidden, states["agent"][0])
        np.testing.assert_allclose(states["batch"][0][:, :1], hidden, atol=2e-6)

    first = policy.predict(row)[1][0]
    again = policy.predict(row, state=states["policy"], episode_start=True)[1][0]
    assert np.array_equal(first, again)
    assert not np.allclose(first, states["policy"][0])
    with pytest.raises(ValueError, match=r"state must be arrays of shapes .*\(2, 5, 8\)"):
        policy.predict_batch(observations[0], state=states["policy"])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rnn_type": "rnn"}, "rnn_type must be one of"),
        ({"shared_lstm": True}, "enable_critic_lstm must be False with shared_lstm=True"),
        ({"sequence_length": 0}, "sequence_length must be None or"),
        ({"lstm_hidden_size": 0}, "lstm_hidden_size must be"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RecurrentPPOSettings(**changes)


def test_a_file_with_too_many_layers_is_refused_before_they_are_made(tmp_path: Path) -> None:
    path = agent().save(tmp_path, training=False)
    content = read_file(path)
    content["settings"]["n_lstm_layers"] = 10**9
    write_file(path, content)

    with pytest.raises(ModelFileError, match="n_lstm_layers must be at most 64"):
        load_policy(path)


LEARNING: dict[str, Any] = {
    "n_steps": 28,
    "learning_rate": 1e-2,
    "ent_coef": 0.01,
    "policy": {"net_arch": (16,)},
}


def recalled(trained: Any, cues: int, delay: int) -> float:
    """Fraction of cues that are recalled in new games."""
    returns = play(trained, vector(MemoryGame(256, cues, delay)), 256, seed=99).returns
    return float(returns.mean())


def test_memory_solves_a_game_that_a_feed_forward_policy_cannot() -> None:
    changes = {**LEARNING, "lstm_hidden_size": 16}
    trained = RecurrentPPO(vector(MemoryGame(32)), seed=2, **changes).fit(32 * 28 * 14)
    forgetful = PPO(vector(MemoryGame(32)), seed=2, **LEARNING).fit(32 * 28 * 14)

    assert recalled(trained, 3, 6) > 0.95
    assert recalled(forgetful, 3, 6) < 0.45


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
@every_kind
def test_memory_solves_a_longer_game_over_seeds(kind: str, seed: int) -> None:
    changes = {**LEARNING, "lstm_hidden_size": 32, "n_steps": 63, **KINDS[kind]}
    trained = RecurrentPPO(vector(MemoryGame(64, 4, 20)), seed=seed, **changes)
    trained.fit(64 * 63 * 60)

    assert recalled(trained, 4, 20) > 0.95
