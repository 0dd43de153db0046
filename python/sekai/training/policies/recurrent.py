"""Recurrent actor-critic: LSTM or GRU over the features of a backbone, reset at episode starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn.utils.rnn import PackedSequence

from sekai.policy.observations import ACTION_MASK, Leaf
from sekai.policy.program import mask_names
from sekai.training.actions import ActionMap
from sekai.training.normalizers import Gather
from sekai.training.policies.actor_critic import (
    Actor,
    Backbone,
    Critic,
    Features,
    activation,
    backbone,
    inputs_of,
    linear,
)
from sekai.training.trained_policy import PolicyNetwork

if TYPE_CHECKING:
    from sekai.training.recurrent_ppo import RecurrentPPOSettings

__all__ = ["EpisodePieces", "RecurrentActorCritic", "RecurrentBody", "RecurrentLayers", "Unrolled"]


@dataclass(frozen=True, slots=True, eq=False)
class EpisodePieces:
    """Sequences cut at episode starts into pieces, packed for a recurrent layer.

    Rows are time by env, flattened. Pieces are sorted by length, longest first.
    """

    order: Tensor
    """Row of each packed row."""

    inverse: Tensor
    """Packed row of each row."""

    batch_sizes: Tensor
    """Pieces that are longer than each number of steps; on the CPU, as torch expects."""

    envs: Tensor
    """Env of each piece."""

    carries: Tensor
    """True for pieces that continue the state from before the sequence: pieces by one."""

    ends: Tensor
    """Row of the last step of each piece."""

    last: Tensor
    """Last piece of each env."""

    @classmethod
    def of(cls, starts: NDArray[np.bool_], device: torch.device) -> EpisodePieces:
        """Cut sequences.

        Args:
            starts: steps whose observation is the first of an episode: times by envs.
            device: device of the tensors.
        """
        times, envs = starts.shape
        # By env first, so that the steps of a piece are neighbours.
        begins = starts.T.copy()
        begins[:, 0] = True
        flat = begins.ravel()
        firsts = np.flatnonzero(flat)
        lengths = np.diff(firsts, append=flat.size)
        by_length = np.argsort(-lengths, kind="stable")
        rank = np.empty_like(by_length)
        rank[by_length] = np.arange(len(by_length))
        piece = np.cumsum(flat) - 1
        offset = np.arange(flat.size) - firsts[piece]
        packed = np.lexsort((rank[piece], offset))
        order = packed % times * envs + packed // times
        inverse = np.empty_like(order)
        inverse[order] = np.arange(order.size)
        firsts, lasts = firsts[by_length], (firsts + lengths - 1)[by_length]
        is_last = np.flatnonzero(lasts % times == times - 1)
        last = np.empty(envs, np.int64)
        last[lasts[is_last] // times] = is_last
        carries = (firsts % times == 0) & ~starts[0][firsts // times]

        def tensor(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(device)

        return cls(
            tensor(order),
            tensor(inverse),
            torch.from_numpy(np.bincount(offset)),
            tensor(firsts // times),
            tensor(carries).unsqueeze(-1),
            tensor(lasts % times * envs + lasts // times),
            tensor(last),
        )


class RecurrentLayers(nn.Module):
    """LSTM or GRU whose state is one row of numbers for each env.

    Args:
        width: number of features.
        settings: hyperparameters with the kind, size and number of layers.
    """

    def __init__(self, width: int, settings: RecurrentPPOSettings) -> None:
        super().__init__()
        self.parts, kind = (2, nn.LSTM) if settings.rnn_type == "lstm" else (1, nn.GRU)
        self.size, self.layers = settings.lstm_hidden_size, settings.n_lstm_layers
        self.rnn = kind(width, self.size, self.layers)
        self.state_size = self.parts * self.layers * self.size
        """Numbers in the state of an env."""

    def step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and states after one step of each env."""
        outputs, after = self.rnn(features.unsqueeze(0), self._hidden(state))
        return outputs.squeeze(0), self._rows(after)

    def unroll(
        self, features: Tensor, state: Tensor, pieces: EpisodePieces
    ) -> tuple[Tensor, Tensor]:
        """Outputs of all rows, and the state at the end of each piece.

        Args:
            features: rows by features.
            state: state of each env before the first step.
            pieces: episode starts among the rows.
        """
        before = state[pieces.envs] * pieces.carries
        packed = PackedSequence(features[pieces.order], pieces.batch_sizes)
        outputs, after = self.rnn(packed, self._hidden(before))
        return outputs.data[pieces.inverse], self._rows(after)

    def as_parts(self, state: Tensor) -> tuple[Tensor, ...]:
        """State in the layout of torch: (hidden, cell) of an LSTM, each layers by envs by size."""
        parts = state.reshape(len(state), self.parts, self.layers, self.size)
        return tuple(part.contiguous() for part in parts.permute(1, 2, 0, 3).unbind(0))

    def as_rows(self, parts: tuple[Tensor, ...]) -> Tensor:
        """State as rows, the inverse of `as_parts`."""
        stacked = torch.stack(parts).permute(2, 0, 1, 3)
        return stacked.reshape(len(stacked), -1)

    def _hidden(self, state: Tensor) -> Any:
        parts = self.as_parts(state)
        return parts if self.parts > 1 else parts[0]

    def _rows(self, hidden: Any) -> Tensor:
        return self.as_rows(hidden if self.parts > 1 else (hidden,))


class RecurrentBody(Backbone):
    """Backbone followed by recurrent layers.

    Features of asset slots are combined with the outputs of the recurrent layers, so that actions
    of single assets depend on the past as well, in whatever order assets are.
    """

    def __init__(self, inner: Backbone, settings: RecurrentPPOSettings) -> None:
        super().__init__()
        self.inner, self.memory = inner, RecurrentLayers(inner.width, settings)
        self.width, self.state_size = self.memory.size, self.memory.state_size
        self.slots, self.mask_name = inner.slots, inner.mask_name
        if self.slots:
            self.own = linear(inner.width, self.width)
            self.remembered = nn.Linear(self.width, self.width, bias=False)
            self.activate = activation(settings.policy)

    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        """Features of first observations: one step from the initial state."""
        features = self.inner(inputs)
        state = features.whole.new_zeros(len(features.whole), self.state_size)
        return self._joined(features, self.memory.step(features.whole, state)[0])

    def step(self, inputs: Mapping[str, Tensor], state: Tensor) -> tuple[Features, Tensor]:
        """Features and states after one step of each env."""
        features = self.inner(inputs)
        outputs, after = self.memory.step(features.whole, state)
        return self._joined(features, outputs), after

    def unroll(
        self, inputs: Mapping[str, Tensor], state: Tensor, pieces: EpisodePieces
    ) -> tuple[Features, Tensor]:
        """Features of all rows, and the state at the end of each piece."""
        features = self.inner(inputs)
        outputs, after = self.memory.unroll(features.whole, state, pieces)
        return self._joined(features, outputs), after

    def _joined(self, features: Features, outputs: Tensor) -> Features:
        if features.slots is None:
            return Features(outputs)
        mixed = self.own(features.slots) + self.remembered(outputs).unsqueeze(1)
        return Features(outputs, self.activate(mixed), features.mask)


@dataclass(frozen=True, slots=True, eq=False)
class Unrolled:
    """Outputs of a recurrent actor-critic over sequences."""

    distribution: Distribution
    values: Tensor
    ends: Tensor
    """State at the end of each episode piece: pieces by numbers."""

    state: Tensor
    """State of each env after the last step."""


class RecurrentActorCritic(PolicyNetwork):
    """Actor and critic with recurrent layers; the state of an env is a row of numbers.

    Args:
        leaves: observation leaves.
        actions: action space mapping.
        settings: hyperparameters of the algorithm.
        gather: window lookup, if observations hold window indices.
    """

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        actions: ActionMap,
        settings: RecurrentPPOSettings,
        gather: Gather | None = None,
    ) -> None:
        super().__init__()
        policy, self.shares_memory = settings.policy, settings.shared_lstm
        self.inputs = self.critic_inputs = inputs_of(leaves, policy, gather)
        inner = backbone(self.inputs.leaves, policy)
        own = RecurrentBody(inner, settings)
        masks, std = mask_names(leaves, actions.choices), policy.std_init * actions.std_scale
        self.actor = Actor(self.inputs, own, actions, std, masks)
        self.sizes = [own.state_size, 0]
        other: Backbone = own
        if not self.shares_memory:
            shares = policy.share_features_extractor
            other = inner if shares else backbone(self.inputs.leaves, policy)
            if settings.enable_critic_lstm:
                other = judging = RecurrentBody(other, settings)
                self.sizes[1] = judging.state_size
        self.critic = Critic(self.inputs, other)

    @property
    def body(self) -> RecurrentBody:
        """Backbone and recurrent layers of the actor."""
        body = self.actor.body
        assert isinstance(body, RecurrentBody), "made above"
        return body

    @property
    def state_size(self) -> int:
        """Numbers in the state of an env: those of the actor, and those of the critic after it."""
        return sum(self.sizes)

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Actions on first observations of episodes; see `act` for the others."""
        state = self.initial_state(len(next(iter(observations.values()))))
        return self.act(observations, state, deterministic)[0]

    def act(
        self, observations: Mapping[str, Tensor], state: Tensor, deterministic: bool
    ) -> tuple[Tensor, Tensor]:
        """Actions before conversion to the action space of the env, and the states of the actor.

        Args:
            observations: one observation of each env.
            state: state of the actor before them; zeros where an episode starts.
            deterministic: take the most likely action instead of a sample.
        """
        features, after = self.body.step(self.inputs(observations), state)
        distribution = self.actor.distribution_of(self.actor.outputs(features, observations))
        actions: Tensor = distribution.mode if deterministic else distribution.sample()
        return actions, after

    def initial_state(self, count: int) -> Tensor:
        """State of the actor at the start of episodes."""
        return torch.zeros(count, self.body.state_size, device=self.inputs.device)

    def used(self, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Mask of the action components in use; None for all."""
        return self.actor.used(observations)

    def action_parameters(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Logits or means of the second of two steps with the same observations.

        In the first step the state is zero, which hides differences of the recurrent layers.
        """
        inputs = self.inputs(observations)
        state = self.initial_state(len(next(iter(inputs.values()))))
        _, state = self.body.step(inputs, state)
        features, _ = self.body.step(inputs, state)
        parameters: Tensor = self.actor.outputs(features, observations)[0]
        return parameters

    def unroll(
        self,
        observations: Mapping[str, Tensor],
        state: Tensor,
        pieces: EpisodePieces,
        *,
        preprocessed: bool = False,
        rows: Tensor | None = None,
    ) -> Unrolled:
        """Action distributions and values of sequences.

        Args:
            observations: observations of all rows.
            state: state of each env before the first step, of actor and critic.
            pieces: episode starts among the rows.
            preprocessed: observations are outputs of `Inputs`, beside action masks.
            rows: rows whose outputs are returned; None for all.
        """
        inputs = observations if preprocessed else self.inputs(observations)
        own, other = torch.split(state, self.sizes, dim=-1)
        features, ends = self.body.unroll(inputs, own, pieces)
        chosen = _selected(features, rows)
        critic_body, values = self.critic.body, chosen.whole.detach()
        if isinstance(critic_body, RecurrentBody) and not self.shares_memory:
            judged, critic_ends = critic_body.unroll(inputs, other, pieces)
            values, ends = _selected(judged, rows).whole, torch.cat([ends, critic_ends], dim=-1)
        elif not self.shares_memory:
            # Without a memory, rows that are not returned need not be computed.
            values = critic_body(_rows(inputs, rows)).whole
        masks = {name: observations[name] for name in self._mask_names(observations)}
        parameters = self.actor.outputs(chosen, _rows(masks, rows))
        return Unrolled(
            self.actor.distribution_of(parameters),
            self.critic.value(values).squeeze(-1),
            ends,
            ends[pieces.last],
        )

    def _mask_names(self, observations: Mapping[str, Tensor]) -> list[str]:
        return [name for name in (ACTION_MASK, *self.actor.mask_names) if name in observations]


def _selected(features: Features, rows: Tensor | None) -> Features:
    if rows is None:
        return features
    parts = (features.whole, features.slots, features.mask)
    whole, slots, mask = (None if part is None else part[rows] for part in parts)
    assert whole is not None, "all backbones have features of the observation"
    return Features(whole, slots, mask)


def _rows(table: Mapping[str, Tensor], rows: Tensor | None) -> Mapping[str, Tensor]:
    if rows is None:
        return table
    return {name: part[rows.to(part.device)] for name, part in table.items()}
