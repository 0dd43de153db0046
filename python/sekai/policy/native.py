"""Native policies: inference of saved agents without torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PolicyProgram
from sekai.data.signature import DataSignature
from sekai.error import SpaceError
from sekai.policy.acting import NativeActions
from sekai.policy.actions import ActionLayout
from sekai.policy.backbones import body_of
from sekai.policy.base import SpacePolicy
from sekai.policy.files import ModelFileError
from sekai.policy.observations import ACTION_MASK, Leaves, arrays_of, leaves_of, slots_of
from sekai.policy.program import (
    Body,
    ProgramBuilder,
    UnsupportedPolicyError,
    Weights,
    backbone_name,
    mask_names,
)
from sekai.policy.settings import PolicySettings
from sekai.spaces import Discrete, Space

__all__ = [
    "LEARNING_ONLY",
    "MAX_LOG_STD",
    "MIN_LOG_STD",
    "NativeNetwork",
    "NativePolicy",
    "native_network",
    "stochastic_actor",
]

MIN_LOG_STD, MAX_LOG_STD = -5.0, 2.0
"""Bounds of the log standard deviation of squashed Gaussian actions."""

LEARNING_ONLY = ("critics.", "log_temperature")
"""Prefixes of weights of off-policy agents that only training needs."""

READABLE = frozenset(np.dtype(name) for name in ("f4", "f8", "i8", "i4", "i1", "u1", "?"))
"""Types of arrays that programs read; others are converted."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeNetwork:
    """Programs of a policy."""

    actor: PolicyProgram
    """Program of the action parameters: logits; means; or squashed means, means and standard
    deviations."""

    critic: PolicyProgram | None = None
    """Program of the value function, where acting agents have one."""

    std: NDArray[np.float32] | None = None
    """Standard deviations of Gaussian actions that do not depend on the observation."""

    exploration_rate: float = 0.0
    """Probability of a random action, of samples of a Q-network."""


Maker = Callable[[Leaves, ActionLayout, PolicySettings, Weights], NativeNetwork]


NORMALIZERS = ("inputs", "actor.inputs", "critic_inputs", "critic.inputs")
"""Modules of an actor-critic that share a normalizer, which files hold for each."""


def stochastic_actor(
    leaves: Leaves,
    actions: ActionLayout,
    settings: PolicySettings,
    weights: Weights,
    prefixes: tuple[str, ...] = NORMALIZERS,
) -> tuple[PolicyProgram, NDArray[np.float32] | None]:
    """Program of the logits or means of an actor-critic, and the standard deviations of means."""
    program = ProgramBuilder(leaves, settings, weights)
    body = body_of(program, program.inputs(prefixes), "actor.body")
    std = None
    if actions.is_choice:
        output = program.logits(body, "actor.head", actions)
    else:
        output, log_std = program.means(body, "actor.head", actions)
        std = np.exp(log_std)
        if actions.is_bounded:
            output = program.add("tanh", input=output)
    return program.build(output), std


def _actor(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> NativeNetwork:
    prefixes = ("inputs", "actor.inputs")
    actor, std = stochastic_actor(leaves, actions, settings, weights, prefixes)
    return NativeNetwork(actor, std=std)


def _actor_critic(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> NativeNetwork:
    actor, std = stochastic_actor(leaves, actions, settings, weights)
    value = ProgramBuilder(leaves, settings, weights)
    critic_body = body_of(value, value.inputs(NORMALIZERS), "critic.body")
    values = value.linear(critic_body.whole, "critic.value", critic_body.width, 1)
    if settings.share_features_extractor:
        weights.require_shared("actor.body.", "critic.body.")
    return NativeNetwork(actor, value.build(values), std)


def _deterministic(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> NativeNetwork:
    program, _, means, _ = _continuous(leaves, actions, settings, weights)
    return NativeNetwork(program.build(program.add("tanh", input=means)))


def _squashed(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> NativeNetwork:
    program, body, means, log_std = _continuous(leaves, actions, settings, weights)
    change, _ = program.means(body, "actor.std_head", actions)
    with np.errstate(all="ignore"):
        # Rounded as in training, where the head returns the exponential.
        shift = np.log(np.exp(log_std))
    std = program.add("exponent", input=change, shift=shift, low=MIN_LOG_STD, high=MAX_LOG_STD)
    return NativeNetwork(program.build(program.add("tanh", input=means), means, std))


def _continuous(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> tuple[ProgramBuilder, Body, int, NDArray[np.float32]]:
    """Program of an off-policy actor up to its means, and their log standard deviations."""
    program = ProgramBuilder(leaves, settings, weights)
    body = body_of(program, program.inputs(("inputs",)), "actor.body")
    return program, body, *program.means(body, "actor.head", actions)


def _q_network(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> NativeNetwork:
    if not isinstance(actions.space, Discrete):
        raise ModelFileError(f"a Q-network has Discrete actions, got {actions.space!r:.80}")
    program = ProgramBuilder(leaves, settings, weights)
    body = body_of(program, program.inputs(("inputs",)), "values.body")
    count = actions.choices[0]
    # The variants of DQN differ in their weights alone.
    is_dueling = weights.has("values.state.2.weight")
    last = "values.actions.2" if is_dueling else "values.actions"
    quantiles = max(1, weights.rows(f"{last}.weight") // count)
    if is_dueling:
        state = program.stream(body, "values.state", quantiles)
        values = program.stream(body, "values.actions", count * quantiles)
        state, values = program.averaged(state, quantiles), program.averaged(values, quantiles)
        mean = program.add("mean", input=values, items=count, mask=None)
        centre = program.add("scale", input=mean, factor=-1.0)
        values = program.add("add", input=values, other=centre)
        values = program.add("add", input=values, other=state)
    else:
        values = program.linear(body.whole, last, body.width, count * quantiles)
        values = program.averaged(values, quantiles)
    output = program.add("mask_logits", input=values, mask=None, masked=-np.inf)
    rate = weights.read("exploration_rate", ()).item()
    return NativeNetwork(program.build(output), exploration_rate=rate)


NETWORKS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "PPO": (_actor_critic, ()),
    "A2C": (_actor_critic, ()),
    "DDPG": (_deterministic, LEARNING_ONLY),
    "TD3": (_deterministic, LEARNING_ONLY),
    "SAC": (_squashed, LEARNING_ONLY),
    "DQN": (_q_network, ()),
    "BC": (_actor, ()),
    "IQL": (_actor_critic, LEARNING_ONLY),
    "CQL": (_squashed, LEARNING_ONLY),
}
"""Networks by algorithm, and the weights that only training needs."""


def native_network(
    algorithm: str,
    observation_space: Space[Any],
    action_space: Space[Any],
    settings: PolicySettings,
    weights: Any,
) -> NativeNetwork:
    """Build the programs of a saved agent.

    Args:
        algorithm: name of the algorithm.
        observation_space: observation space of the env.
        action_space: action space of the env.
        settings: architecture.
        weights: weights by name.

    Raises:
        UnsupportedPolicyError: the agent has no native program.
        ModelFileError: weights do not fit the architecture.
    """
    if algorithm not in NETWORKS:
        raise UnsupportedPolicyError(f"algorithm {algorithm!r:.80}")
    make, ignored = NETWORKS[algorithm]
    read = Weights(weights, ignored)
    try:
        leaves, actions = leaves_of(observation_space), ActionLayout(action_space)
        mask_names(leaves, actions.choices)
        if actions.is_choice and algorithm == "CQL":
            raise UnsupportedPolicyError("a Q-network of discrete actions")
        if actions.is_choice and make in (_deterministic, _squashed):
            raise ModelFileError(f"{algorithm} has continuous actions, got {action_space!r:.80}")
        network = make(leaves, actions, settings, read)
    except (ModelFileError, UnsupportedPolicyError):
        raise
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise ModelFileError(f"cannot build the network: {error}") from error
    read.require_all_read()
    return network


class NativePolicy(SpacePolicy):
    """Policy of a saved agent, computed by the native core.

    Discrete actions equal those of torch up to ties; numbers differ by rounding, see
    `docs/training.md`. A batch gives the same bits as its observations one by one.

    Args:
        algorithm: name of the algorithm.
        observation_space: observation space of the env.
        action_space: action space of the env.
        settings: architecture.
        weights: weights by name.
        seed: seed of sampled actions.
        data_signature: data that the policy was trained on; None without market data.
        allow: names of differences from that data that are allowed; see `load_policy`.

    Raises:
        UnsupportedPolicyError: the agent has no native program.
        ModelFileError: weights do not fit the architecture.
    """

    def __init__(
        self,
        algorithm: str,
        observation_space: Space[Any],
        action_space: Space[Any],
        settings: PolicySettings,
        weights: Mapping[str, NDArray[Any]],
        *,
        seed: int = 0,
        data_signature: DataSignature | None = None,
        allow: Collection[str] = (),
    ) -> None:
        self.network = native_network(algorithm, observation_space, action_space, settings, weights)
        super().__init__(
            observation_space, action_space, data_signature=data_signature, allow=allow
        )
        self.algorithm, self.settings, self.weights = algorithm, settings, weights
        self.seed = seed
        self.rng = np.random.default_rng(seed % 2**64)
        self.actions = ActionLayout(action_space)
        self._masks = mask_names(self.leaves, self.actions.choices)
        self._slot_mask = self._find_slot_mask()
        self._native = NativeActions(
            self.network.actor, observation_space, self.actions, self._slot_mask
        )

    def on_spaces(self, observation_space: Space[Any], action_space: Space[Any]) -> NativePolicy:
        """Same policy for another number of assets; see `SpacePolicy.on_spaces`."""
        try:
            policy = NativePolicy(
                self.algorithm,
                observation_space,
                action_space,
                self.settings,
                self.weights,
                seed=self.seed,
                data_signature=self.data_signature,
                allow=self.allow,
            )
        except (ModelFileError, SpaceError) as error:
            raise self._misfit(observation_space) from error
        policy.rng = self.rng
        return policy

    def predict(self, observation: Any, deterministic: bool = True, action_mask: Any = None) -> Any:
        """Action for one observation of one env; see `SpacePolicy.predict`."""
        if deterministic and action_mask is None:
            action = self._native.predict(observation)
            if action is not None:
                return action
        return super().predict(observation, deterministic, action_mask)

    @property
    def mask_leaves(self) -> tuple[str, ...]:
        """Leaves of the observation with the mask of discrete actions."""
        if not self.actions.choices:
            return ()
        return (ACTION_MASK,) if ACTION_MASK in self.leaves else self._masks

    @property
    def slot_mask_leaf(self) -> str | None:
        """Leaf of the observation with the mask of continuous actions in use; None for all."""
        return self._slot_mask

    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Actions for a batch of observations; see `SpacePolicy.predict_batch`."""
        arrays = arrays_of(observations)
        outputs = self._forward(arrays, action_mask)
        used = None if self._slot_mask is None else arrays[self._slot_mask]
        chosen = outputs[0] if deterministic else self._sample(outputs, used)
        return self._native.actions(chosen, used)

    def action_parameters(
        self, observations: Any, action_mask: Any = None
    ) -> tuple[NDArray[np.float32], ...]:
        """Parameters of the action distributions of a batch.

        Args:
            observations: batch of observations.
            action_mask: as in `predict_batch`.

        Returns:
            Logits; or means and standard deviations, those of SAC before squashing; or the actions
            of DDPG and TD3 in [-1, 1]; or the Q-values of DQN, minus infinity outside of masks.
        """
        outputs = self._forward(arrays_of(observations), action_mask)
        if len(outputs) == 3:
            return outputs[1:]
        std = self.network.std
        return outputs if std is None else (*outputs, np.broadcast_to(std, outputs[0].shape))

    def values(self, observations: Any) -> NDArray[np.float32]:
        """Value function of a batch.

        Raises:
            ValueError: the algorithm has no value function of observations.
        """
        if self.network.critic is None:
            raise ValueError(f"{self.algorithm} has no value function of observations")
        inputs = self._readable(arrays_of(observations))
        values: NDArray[np.float32] = self.network.critic.forward(inputs)[0][:, 0]
        return values

    def _forward(
        self, arrays: Mapping[str, NDArray[Any]], masks: Any
    ) -> tuple[NDArray[np.float32], ...]:
        allowed = None
        if self.actions.choices:
            allowed = self._observed_mask(arrays) if masks is None else self._flat_masks(masks)
        elif masks is not None:
            self._flat_masks(masks)
        return self.network.actor.forward(self._readable(arrays), allowed)

    def _observed_mask(self, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_] | None:
        names = (ACTION_MASK,) if ACTION_MASK in arrays else self._masks
        parts = [arrays[name].reshape(len(arrays[name]), -1) != 0 for name in names]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def _readable(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Arrays as programs read them."""
        return {
            name: array
            if array.dtype in READABLE and array.flags.c_contiguous
            else np.ascontiguousarray(array, array.dtype if array.dtype in READABLE else np.float64)
            for name, array in arrays.items()
        }

    def _sample(
        self, outputs: tuple[NDArray[np.float32], ...], used: NDArray[Any] | None
    ) -> NDArray[np.float32]:
        """Logits with noise whose highest is a sample, or sampled numbers."""
        if self.algorithm == "DQN":
            return self._explored(outputs[0])
        if self.actions.choices:
            # Gumbel-max trick.
            return outputs[0] + self.rng.gumbel(size=outputs[0].shape).astype(np.float32)
        if len(outputs) == 3:
            return np.tanh(outputs[1] + outputs[2] * self._noise(outputs[1].shape))
        if self.network.std is None:
            return outputs[0]
        noise = self._noise(outputs[0].shape)
        if used is not None:
            # Cash, the last number, is always in use.
            noise[:, : used.shape[1]] *= used != 0
        return outputs[0] + self.network.std * noise

    def _explored(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values of actions; in epsilon-greedy random rows, noise within the action masks."""
        is_random = self.rng.random((len(values), 1)) < self.network.exploration_rate
        noise = self.rng.random(values.shape, dtype=np.float32)
        return np.where(is_random & (values != -np.inf), noise, values)

    def _noise(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        return self.rng.standard_normal(shape, dtype=np.float32)

    def _find_slot_mask(self) -> str | None:
        """Leaf with the mask of the slots that continuous actions belong to."""
        if self.actions.is_choice or backbone_name(self.leaves, self.settings) in ("mlp", "cnn"):
            return None
        slots = slots_of(self.leaves, self.settings)
        has_own = slots is not None and self.actions.size in (slots.count, slots.count + 1)
        return slots.mask if has_own and slots is not None else None
