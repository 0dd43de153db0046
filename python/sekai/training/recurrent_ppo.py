"""Recurrent PPO: an LSTM or GRU carries memory from step to step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution

from sekai.policy.observations import Leaf
from sekai.policy.settings import require
from sekai.training.actions import ActionMap
from sekai.training.agent import Agent
from sekai.training.agent_settings import AgentSettings
from sekai.training.learner import Batch, Learner, next_values
from sekai.training.multi_agent.joint_env import JointSpaces, JointTrainingEnv
from sekai.training.normalizers import Gather
from sekai.training.policies.recurrent import EpisodePieces, RecurrentActorCritic
from sekai.training.ppo import PPO, PPOSettings
from sekai.training.rollout import RolloutBuffer
from sekai.training.trained_policy import RecurrentPolicy, TrainedPolicy
from sekai.vector.vec_env import Seeds

__all__ = ["RecurrentPPO", "RecurrentPPOSettings"]

RNN_TYPES = ("lstm", "gru")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecurrentPPOSettings(PPOSettings):
    """Hyperparameters of recurrent PPO."""

    python_env_settings: ClassVar[Mapping[str, Any]] = {
        "n_envs": 8,
        "n_steps": 128,
        "batch_size": 128,
        "n_epochs": 10,
    }

    batch_size: int | None = None
    """Samples in a minibatch, in whole sequences, at least one; None for a quarter of the
    rollout."""

    sequence_length: int | None = None
    """Steps through which gradients flow back (truncated backpropagation through time); None for
    all `n_steps`. Shorter sequences begin with the states from before the update."""

    rnn_type: Literal["lstm", "gru"] = "lstm"
    """Recurrent layers: "lstm" or "gru"."""

    lstm_hidden_size: int = 64
    """Units of each recurrent layer, a GRU's as well. It reads the features of the backbone, and
    policy and value heads read it."""

    n_lstm_layers: int = 1
    """Number of recurrent layers."""

    shared_lstm: bool = False
    """The critic reads the recurrent layers of the actor, which its gradient does not change;
    needs `enable_critic_lstm=False`."""

    enable_critic_lstm: bool = True
    """The critic has recurrent layers of its own; without, and without `shared_lstm`, it has no
    memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_count("lstm_hidden_size", "n_lstm_layers")
        length = self.sequence_length
        is_length = length is None or (type(length) is int and length >= 1)
        require(is_length, "sequence_length", "None or an integer of at least 1", length)
        require(self.rnn_type in RNN_TYPES, "rnn_type", f"one of {RNN_TYPES}", self.rnn_type)
        both = self.shared_lstm and self.enable_critic_lstm
        require(not both, "enable_critic_lstm", "False with shared_lstm=True", True)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SequenceBatch(Batch):
    """Sequences of a rollout: observations of all rows, time by env, and samples to learn from."""

    starts: NDArray[np.bool_]
    """Steps whose observation is the first of an episode: times by sequences."""

    state: Tensor
    """State of actor and critic before each sequence."""

    samples: Tensor | None
    """Rows to learn from; None for all."""


class RecurrentLearner(Learner):
    """Learner on sequences, with the recurrent states at their beginnings."""

    network: RecurrentActorCritic
    rollout: RolloutBuffer
    sequences: Tensor
    """Sequences with steps to learn from, numbered by part of the rollout and env."""

    def __init__(self, agent: RecurrentPPO, rollout: RolloutBuffer, network: Any) -> None:
        super().__init__(agent, rollout, network)
        self.begin()

    def begin(self) -> None:
        """Start with new episodes in all envs."""
        count = self.rollout.count
        device = self.network.inputs.device
        self.memory = torch.zeros(count, self.network.state_size, device=device)
        """State of actor and critic in each env before the next rollout."""
        self.starts = np.ones(count, np.bool_)

    @property
    def length(self) -> int:
        """Steps of a sequence; the last one of a rollout may be shorter."""
        steps = self.rollout.steps
        return min(self.settings.sequence_length or steps, steps)

    def _single_batch(self, rollout: RolloutBuffer) -> Batch:
        self._learn_where: Tensor | None = None
        batch = super()._single_batch(rollout)
        samples = torch.arange(len(batch)) if self._learn_where is None else self._learn_where
        step, env = samples // rollout.count, samples % rollout.count
        self.sequences = torch.unique(step // self.length * rollout.count + env)
        return dataclasses.replace(batch, log_probs=self._log_probs)

    def _learned(self, batch: Batch, mask: Tensor) -> Batch:
        # Sequences need the other steps too, for their states.
        self._learn_where = mask.flatten().nonzero().squeeze(-1)
        return batch

    def _rollout_values(
        self, rollout: RolloutBuffer, observations: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        network, count, steps = self.network, rollout.count, rollout.steps
        done = rollout.terminated | rollout.truncated
        self._starts = np.concatenate([self.starts[None], done])
        chosen = rollout.chosen.flatten(0, 1).to(network.inputs.device)
        states, values, log_probs, state = [], [], [], self.memory
        ends = state.new_zeros(steps * count if rollout.cuts else 0, network.state_size)
        for first in range(0, steps, self.length):
            last = min(first + self.length, steps)
            part = slice(first * count, last * count)
            pieces = EpisodePieces.of(self._starts[first:last], state.device)
            unrolled = network.unroll(
                _part(observations, part), state, pieces, preprocessed=self.preprocesses
            )
            states.append(state)
            values.append(unrolled.values)
            log_probs.append(unrolled.distribution.log_prob(chosen[part]))
            if rollout.cuts:
                ends[first * count + pieces.ends] = unrolled.ends
            state = unrolled.state
        self._states, self._log_probs = torch.stack(states), torch.cat(log_probs)
        self.memory, self.starts = state, self._starts[-1].copy()
        following = _part(observations, slice(steps * count, None))
        pieces = EpisodePieces.of(self._starts[-1:], state.device)
        unrolled = network.unroll(following, state, pieces, preprocessed=self.preprocesses)
        table = torch.cat([*values, unrolled.values]).reshape(-1, count).cpu()
        cut_rows = [step * count + torch.from_numpy(envs) for step, envs, _ in rollout.cuts]

        def critic(finals: dict[str, Tensor]) -> Tensor:
            # Each final observation follows the state of its own episode.
            before = ends[torch.cat(cut_rows).to(ends.device)]
            pieces = EpisodePieces.of(np.zeros((1, len(before)), np.bool_), before.device)
            return network.unroll(finals, before, pieces).values

        return table, next_values(rollout.cuts, table, critic)

    def log_probs(self, batch: Batch) -> Tensor:
        """Log-probabilities of the actions under the current policy."""
        assert batch.log_probs is not None, "computed with the values"
        return batch.log_probs

    def minibatch(self, batch: Batch, indices: Tensor | None = None) -> Batch:
        """Sequences by number; None for all."""
        chosen = self.sequences if indices is None else indices
        steps, count = len(batch) // self.rollout.count, self.rollout.count
        part, envs = chosen // count, chosen % count
        times = part * self.length + torch.arange(self.length).unsqueeze(-1)
        # The last sequences of a rollout are padded, with rows that are not learned from.
        is_used, times = times < steps, times.clamp_max(steps - 1)
        rows = times * count + envs
        if self._learn_where is not None:
            is_used &= torch.isin(rows, self._learn_where)
        samples = None if is_used.all() else is_used.flatten().nonzero().squeeze(-1)
        flat = rows.flatten()
        values = vars(batch.select(flat if samples is None else flat[samples]))
        if samples is not None:
            observations = {
                name: table.index_select(0, flat.to(table.device))
                for name, table in batch.observations.items()
            }
            values = {**values, "observations": observations}
        return SequenceBatch(
            **values,
            starts=self._starts[times.numpy(), envs.numpy()],
            state=self._states[part, envs],
            samples=samples,
        )

    def evaluate(self, batch: Batch) -> tuple[Distribution, Tensor]:
        """Action distribution and values of the samples of a minibatch."""
        assert isinstance(batch, SequenceBatch), "made by minibatch"
        unrolled = self.network.unroll(
            batch.observations,
            batch.state,
            EpisodePieces.of(batch.starts, batch.state.device),
            preprocessed=self.preprocesses,
            rows=batch.samples,
        )
        return unrolled.distribution, unrolled.values

    def state(self) -> dict[str, Any]:
        """State for checkpoints, beside the network."""
        memory = {"state": self.memory.cpu(), "starts": self.starts}
        return {**super().state(), "memory": memory}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        super().load_state(state)
        self.memory, self.starts = _memory(state["memory"], self.memory)


class RecurrentPPO(PPO):
    """PPO whose actor and critic have memory: an LSTM or GRU between backbone and heads.

    The state is carried from step to step and reset where an episode starts. `predict` takes and
    returns it: `action, state = agent.predict(observation, state=state)`.
    """

    settings_type: ClassVar[type[AgentSettings]] = RecurrentPPOSettings
    policy_type: ClassVar[type[TrainedPolicy]] = RecurrentPolicy
    settings: RecurrentPPOSettings
    network: RecurrentActorCritic
    learners: dict[str, Any]

    def _build(self) -> None:
        super()._build()
        self._begin_episodes()

    def _begin_episodes(self) -> None:
        self.memory = self.network.initial_state(self.vec.num_envs)
        """State of the actor in each env."""
        self.starts = np.ones(self.vec.num_envs, np.bool_)
        """Envs in which the next observation is the first of an episode."""

    def _use_multi_agent(self, vec: JointTrainingEnv) -> None:
        # Memories of agents that come and go are not built.
        Agent._use_multi_agent(self, vec)

    @classmethod
    def make_network(  # type: ignore[override]
        cls,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: Any,
        gather: Gather | None = None,
    ) -> RecurrentActorCritic:
        """Make the untrained network."""
        return RecurrentActorCritic(leaves, actions, settings, gather)

    @classmethod
    def make_team(cls, spaces: JointSpaces, settings: Any) -> None:  # type: ignore[override]
        """Networks of several agents: none."""

    def _make_learner(self, rollout: RolloutBuffer, network: Any) -> Learner:
        return RecurrentLearner(self, rollout, network)

    def _minibatches(self, batch: Batch) -> Sequence[Tensor]:
        learner = self.learners[""]
        sequences, size = learner.sequences, self.settings.batch_size
        if not len(sequences):
            return []
        most = -(-len(sequences) // 4) if size is None else max(1, size // learner.length)
        return torch.split(sequences[torch.randperm(len(sequences))], most)

    def _start(self, seed: Seeds) -> None:
        super()._start(seed)
        self._begin_episodes()
        for learner in self.learners.values():
            learner.begin()

    def _act_steps(self, step_counts: Sequence[int]) -> None:
        def act(observations: dict[str, Tensor]) -> Tensor:
            state = self.memory * torch.from_numpy(~self.starts).to(self.device).unsqueeze(-1)
            chosen, self.memory = self.network.act(observations, state, deterministic=False)
            return chosen

        def watch(result: Any, step: int) -> None:
            self.starts = result.terminated | result.truncated
            if self._watch is not None:
                self._watch(result, step)

        self.rollout.fill(act, watch, self.network.used)

    def predict(
        self,
        observation: Any,
        deterministic: bool = True,
        action_mask: Any = None,
        *,
        state: Any = None,
        episode_start: Any = None,
    ) -> tuple[Any, Any]:
        """Action for one observation, and the state after it; see `RecurrentPolicy.predict`."""
        policy: Any = self.policy
        predicted: tuple[Any, Any] = policy.predict(
            observation, deterministic, action_mask, state=state, episode_start=episode_start
        )
        return predicted

    def predict_batch(
        self,
        observations: Any,
        deterministic: bool = True,
        action_mask: Any = None,
        *,
        state: Any = None,
        episode_start: Any = None,
    ) -> tuple[Any, Any]:
        """Actions for a batch, and the states; see `RecurrentPolicy.predict_batch`."""
        policy: Any = self.policy
        predicted: tuple[Any, Any] = policy.predict_batch(
            observations, deterministic, action_mask, state=state, episode_start=episode_start
        )
        return predicted

    def _acting_state(self) -> dict[str, Any]:
        memory = {"state": self.memory.cpu().numpy(), "starts": self.starts}
        return {**super()._acting_state(), "memory": memory}

    def _load_acting_state(self, state: Mapping[str, Any]) -> None:
        super()._load_acting_state(state)
        self.memory, self.starts = _memory(state["memory"], self.memory)

    def _learning_state(self) -> dict[str, Any]:
        return {**super()._learning_state(), "memory": self._acting_state()["memory"]}

    def _load_learning_state(self, state: Mapping[str, Any]) -> None:
        super()._load_learning_state(state)
        self.memory, self.starts = _memory(state["memory"], self.memory)


def _memory(saved: Mapping[str, Any], own: Tensor) -> tuple[Tensor, NDArray[np.bool_]]:
    """Recurrent state and episode starts of a checkpoint."""
    state = torch.as_tensor(saved["state"], dtype=own.dtype, device=own.device).clone()
    starts = np.array(saved["starts"], np.bool_)
    if state.shape != own.shape or starts.shape != (len(own),):
        raise ValueError(f"the recurrent state must be of shape {own.shape}, got {state.shape}")
    return state, starts


def _part(rows: Mapping[str, Tensor], part: slice) -> dict[str, Tensor]:
    return {name: table[part] for name, table in rows.items()}
