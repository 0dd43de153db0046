"""Distillation from a privileged teacher: its loss, what the student sees, and what files hold."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import SpaceError
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.policy import as_policy
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.tasks import task_of
from sekai.policy.files import ModelFileError, read_arrays
from sekai.spaces import Box, Dict, Discrete, Space
from sekai.training import A2C, DQN, PPO, RecurrentPPO, load_policy
from sekai.training.policies.actor_critic import DiagGaussian, MultiCategorical
from sekai.training.teacher import kl_divergence
from sekai.training.training_envs import play
from tests.worlds import RandomWalk

pytestmark = pytest.mark.timeout(300)


class Hinted(Env[Any, Any]):
    """Choose the sign of a product of noisy numbers, which a privileged part states.

    Observation: `numbers`, and `answer`, the right action.
    Action: 0 or 1.
    Reward: 1 for the right action, with the noise of a coin of ten times its size.
    """

    def __init__(self, shows_answer: bool = True) -> None:
        answer = {"answer": Box(0.0, 1.0, (1,), np.float32)} if shows_answer else {}
        self.observation_space: Space[Any] = Dict(
            {**answer, "numbers": Box(-1.0, 1.0, (2,), np.float32)}
        )
        self.action_space = Discrete(2)
        self._answer, self._steps = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        self._set_rng(seed)
        self._steps = 0
        return ResetResult(self._see(), {})

    def step(self, action: Any) -> StepResult[Any]:
        reward = float(action == self._answer) + 3.0 * float(self.rng.choice([-1.0, 1.0]))
        self._steps += 1
        return StepResult(self._see(), reward, False, self._steps == 8, {})

    def _see(self) -> dict[str, NDArray[np.float32]]:
        numbers = self.rng.uniform(-1.0, 1.0, 2).astype(np.float32)
        self._answer = int(numbers.prod() > 0)
        seen = {"answer": np.array([self._answer], np.float32), "numbers": numbers}
        return {name: seen[name] for name in self.observation_space.spaces}  # type: ignore[attr-defined]


QUICK: dict[str, Any] = {
    "n_envs": 16,
    "n_steps": 32,
    "batch_size": 128,
    "learning_rate": 1e-2,
    "policy": {"net_arch": (16,)},
}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File of a teacher that reads the answer."""
    trained = PPO(Hinted, seed=1, **QUICK).fit(512 * 12)
    return trained.save(tmp_path_factory.mktemp("teacher"), training=False)


def student(kind: Any = PPO, **changes: Any) -> Any:
    settings = {**QUICK, "privileged": ("answer",), **changes}
    if kind is A2C:
        del settings["batch_size"]
    return kind(Hinted, seed=2, **settings)


def correct(agent: Any) -> float:
    """Share of right actions where the right one is not at the border."""
    rng = np.random.default_rng(5)
    numbers = rng.uniform(-1.0, 1.0, (2_000, 2)).astype(np.float32)
    clear = numbers[np.abs(numbers).min(1) > 0.1]
    actions = agent.predict_batch({"numbers": clear})
    actions = actions[0] if isinstance(agent, RecurrentPPO) else actions
    return float((actions == (clear.prod(1) > 0)).mean())


def test_a_student_with_a_teacher_learns_faster(teacher: Path) -> None:
    taught = student(teacher=teacher).fit(512 * 10)
    alone = student().fit(512 * 10)

    assert correct(taught) > 0.9
    assert correct(alone) < 0.75


@pytest.mark.parametrize("kind", [PPO, A2C, RecurrentPPO])
def test_the_loss_is_the_divergence_of_the_distributions(kind: Any, teacher: Path) -> None:
    agent = student(kind, teacher=teacher, teacher_coef=0.25)
    learner = agent.learners[""]
    with agent.randomness:
        agent._start(0)
        agent._collect()
        batch = learner.batch()
    part = learner.minibatch(batch, getattr(learner, "sequences", None))

    losses = agent._loss(learner, part if part.log_probs is not None else _with_log_probs(part))

    policy: Any = load_policy(teacher, backend="torch")
    shown = agent.rollout.observed
    with torch.no_grad():
        rows = {name: table[:-1].flatten(0, 1) for name, table in shown.items()}
        own = policy.network.actor(rows)[0].double().softmax(-1)
        distribution, _ = learner.evaluate(part)
        others = distribution.logs[0].double()
    expected = (own * (own.log() - others)).sum(-1).mean()
    assert float(losses["teacher_kl"]) == pytest.approx(float(expected), rel=1e-4)
    assert float(losses["loss_teacher"].detach()) == pytest.approx(0.25 * float(expected), rel=1e-4)
    assert float(expected) > 0.1


def _with_log_probs(part: Any) -> Any:
    return dataclasses.replace(part, log_probs=torch.zeros(len(part)))


def test_divergences_are_those_of_torch() -> None:
    draws = torch.Generator().manual_seed(1)
    own, other = (torch.randn(7, 5, generator=draws) for _ in range(2))

    found = kl_divergence({"logits": own}, MultiCategorical(other, (2, 3)))

    expected = sum(
        torch.distributions.kl_divergence(
            torch.distributions.Categorical(logits=own[:, part]),
            torch.distributions.Categorical(logits=other[:, part]),
        )
        for part in (slice(0, 2), slice(2, 5))
    )
    torch.testing.assert_close(found, expected)
    used = torch.rand(7, 5, generator=draws) < 0.5
    parameters = {"means": own, "deviations": own.exp(), "used": used}
    gaussian = kl_divergence(parameters, DiagGaussian(other, other.square() + 0.1, used))
    normal = torch.distributions.Normal
    by_action = torch.distributions.kl_divergence(
        normal(own, own.exp()), normal(other, other.square() + 0.1)
    )
    torch.testing.assert_close(gaussian, (by_action * used).sum(-1))


def test_actions_that_a_mask_forbids_add_nothing_to_the_divergence() -> None:
    logits = torch.tensor([[0.3, -1.0, 2.0]])
    masked = logits.masked_fill(torch.tensor([False, True, False]), -1e9)

    found = kl_divergence({"logits": masked}, MultiCategorical(masked + torch.tensor([0.0, 0, 1])))

    own, other = torch.tensor([0.3, 2.0]).softmax(0), torch.tensor([0.3, 3.0]).softmax(0)
    assert float(found) == pytest.approx(float((own * (own / other).log()).sum()))


@pytest.mark.parametrize("kind", [PPO, RecurrentPPO])
def test_a_coefficient_of_zero_gives_the_bytes_of_no_teacher(
    kind: Any, teacher: Path, tmp_path: Path
) -> None:
    ignoring = student(kind, teacher=teacher, teacher_coef=0.0).fit(1024)
    alone = student(kind, teacher_coef=0.0).fit(1024)

    files = [
        agent.save(tmp_path / name).read_bytes() for name, agent in (("a", ignoring), ("b", alone))
    ]
    assert files[0] == files[1]
    assert files[0] != student(kind, teacher=teacher).fit(1024).save(tmp_path / "c").read_bytes()


def test_a_student_neither_sees_nor_saves_what_is_privileged(teacher: Path, tmp_path: Path) -> None:
    taught = student(teacher=teacher).fit(512)
    path = taught.save(tmp_path)

    policy: Any = load_policy(path)
    assert list(policy.observation_space.spaces) == ["numbers"]
    assert taught.network.actor.body.body[0].in_features == 2
    numbers = np.array([0.5, 0.3], np.float32)
    assert policy.predict({"numbers": numbers}) == taught.predict({"numbers": numbers})
    own = load_policy(teacher, backend="torch").network.state_dict()
    for name, weights in _arrays(read_arrays(path)):
        for teaching in own.values():
            is_same = weights.shape == teaching.shape and weights.size > 1
            assert not (is_same and np.array_equal(weights, teaching.numpy())), name


def test_a_student_is_evaluated_in_envs_with_and_without_privileged_parts(
    teacher: Path, tmp_path: Path
) -> None:
    taught = student(teacher=teacher).fit(512)
    played = []
    for env in (Hinted, partial(Hinted, False)):
        source = as_env_source(env)
        for policy in (taught, load_policy(taught.save(tmp_path))):
            episodes = run_episodes(as_policy(policy), source, task_of(source), [1, 2])
            played.append([episode.actions.ravel().tolist() for episode in episodes])

    assert played[0] == played[1] == played[2] == played[3]
    assert len(play(taught, taught.vec, 16, seed=1).returns) == 16


def _arrays(tree: Any, path: str = "") -> list[tuple[str, NDArray[Any]]]:
    if isinstance(tree, dict):
        return [found for key, part in tree.items() for found in _arrays(part, f"{path}/{key}")]
    return [(path, tree)] if isinstance(tree, np.ndarray) else []


def test_resuming_needs_the_teacher_and_is_bit_for_bit(teacher: Path, tmp_path: Path) -> None:
    whole = student(teacher=teacher).fit(1024)
    path = student(teacher=teacher).fit(512, total=1024).save(tmp_path)

    resumed = PPO.resume(path, 512, env=Hinted, teacher=teacher)

    for name, weights in whole.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], weights), name
    with pytest.raises(ModelFileError, match="pass teacher=..., or teacher=None to go on without"):
        PPO.resume(path, 512, env=Hinted)
    assert PPO.resume(path, 512, env=Hinted, teacher=None).steps == 1024
    other = PPO(Hinted, n_envs=4, n_steps=16, seed=9).fit(64).save(tmp_path / "other")
    with pytest.raises(ModelFileError, match="trained with another teacher; pass that one"):
        PPO.resume(path, 512, env=Hinted, teacher=other)


def test_steps_are_selected_by_privileged_parts() -> None:
    agent = student(learn_where="answer").fit(64)

    assert agent.steps == 64


def test_teachers_that_do_not_fit_are_refused(teacher: Path) -> None:
    with pytest.raises(TypeError, match="teacher must be a policy of PPO or A2C"):
        student(teacher=load_policy(teacher))
    with pytest.raises(TypeError, match="DQN has no teacher"):
        DQN(Hinted, n_envs=2, teacher=teacher)
    with pytest.raises(SpaceError, match="the teacher has actions"):
        PPO(RandomWalk, n_envs=2, teacher=teacher)
    with pytest.raises(SpaceError, match=r"privileged=\('answers',\) must name some of the parts"):
        student(privileged=("answers",))
    with pytest.raises(SpaceError, match="must name some of the parts of the observation"):
        PPO(RandomWalk, n_envs=2, privileged=("answer",))
    with pytest.raises(ValueError, match="teacher_coef must be finite, at least 0"):
        student(teacher=teacher, teacher_coef=-1.0)
