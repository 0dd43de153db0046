"""Native policies: inference of saved agents without torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PolicyProgram
from sekai.data.signature import DataSignature
from sekai.error import SpaceError
from sekai.policy.actions import ActionLayout
from sekai.policy.backbones import body_of
from sekai.policy.base import SpacePolicy
from sekai.policy.files import ModelFileError
from sekai.policy.observations import ACTION_MASK, Leaves, arrays_of, leaves_of, slots_of
from sekai.policy.program import (
    ProgramBuilder,
    UnsupportedPolicyError,
    Weights,
    backbone_name,
    mask_names,
)
from sekai.policy.settings import PolicySettings
from sekai.spaces import Space

__all__ = [
    "LEARNING_ONLY",
    "MAX_LOG_STD",
    "MIN_LOG_STD",
    "NativeNetwork",
    "NativePolicy",
    "native_network",
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


Maker = Callable[[Leaves, ActionLayout, PolicySettings, Weights], NativeNetwork]


def _actor(
    leaves: Leaves,
    actions: ActionLayout,
    settings: PolicySettings,
    weights: Weights,
    prefixes: tuple[str, ...] = ("inputs", "actor.inputs"),
) -> NativeNetwork:
    program = ProgramBuilder(leaves, settings, weights)
    body = body_of(program, program.inputs(prefixes), "actor.body")
    if actions.is_choice:
        return NativeNetwork(program.build(program.logits(body, "actor.head", actions)))
    output, log_std = program.means(body, "actor.head", actions)
    if actions.is_bounded:
        output = program.add("tanh", input=output)
    return NativeNetwork(program.build(output), std=np.exp(log_std))


def _actor_critic(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> NativeNetwork:
    # One normalizer, which the file holds for each module that has it.
    prefixes = ("inputs", "actor.inputs", "critic_inputs", "critic.inputs")
    policy = _actor(leaves, actions, settings, weights, prefixes)
    value = ProgramBuilder(leaves, settings, weights)
    critic_body = body_of(value, value.inputs(prefixes), "critic.body")
    values = value.linear(critic_body.whole, "critic.value", critic_body.width, 1)
    if settings.share_features_extractor:
        weights.require_shared("actor.body.", "critic.body.")
    return replace(policy, critic=value.build(values))


def _deterministic(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> NativeNetwork:
    program = ProgramBuilder(leaves, settings, weights)
    body = body_of(program, program.inputs(("inputs",)), "actor.body")
    means, _ = program.means(body, "actor.head", actions)
    return NativeNetwork(program.build(program.add("tanh", input=means)))


def _squashed(
    leaves: Leaves, actions: ActionLayout, settings: PolicySettings, weights: Weights
) -> NativeNetwork:
    program = ProgramBuilder(leaves, settings, weights)
    body = body_of(program, program.inputs(("inputs",)), "actor.body")
    means, log_std = program.means(body, "actor.head", actions)
    change, _ = program.means(body, "actor.std_head", actions)
    with np.errstate(all="ignore"):
        # Rounded as in training, where the head returns the exponential.
        shift = np.log(np.exp(log_std))
    std = program.add("exponent", input=change, shift=shift, low=MIN_LOG_STD, high=MAX_LOG_STD)
    return NativeNetwork(program.build(program.add("tanh", input=means), means, std))


NETWORKS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "PPO": (_actor_critic, ()),
    "A2C": (_actor_critic, ()),
    "DDPG": (_deterministic, LEARNING_ONLY),
    "TD3": (_deterministic, LEARNING_ONLY),
    "SAC": (_squashed, LEARNING_ONLY),
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

    def _batch_of_one(self, observation: Any) -> Any:
        # Stacking costs several times as much as the network.
        if type(observation) is dict and all(type(v) is np.ndarray for v in observation.values()):
            return {name: array[None] for name, array in observation.items()}
        return super()._batch_of_one(observation)

    def predict_batch(
        self, observations: Any, deterministic: bool = True, action_mask: Any = None
    ) -> Any:
        """Actions for a batch of observations; see `SpacePolicy.predict_batch`."""
        arrays = arrays_of(observations)
        outputs = self._forward(arrays, action_mask)
        chosen = self._mode(outputs) if deterministic else self._sample(outputs, arrays)
        return self.actions.actions(chosen, self._used(arrays))

    def action_parameters(
        self, observations: Any, action_mask: Any = None
    ) -> tuple[NDArray[np.float32], ...]:
        """Parameters of the action distributions of a batch.

        Args:
            observations: batch of observations.
            action_mask: as in `predict_batch`.

        Returns:
            Logits; or means and standard deviations, those of SAC before squashing; or the actions
            of DDPG in [-1, 1].
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

    def _mode(self, outputs: tuple[NDArray[np.float32], ...]) -> NDArray[Any]:
        if not self.actions.choices:
            return outputs[0]
        return self._most_likely(outputs[0])

    def _most_likely(self, scores: NDArray[np.float32]) -> NDArray[np.int64]:
        """Choices with the highest scores: batch by choices."""
        choices = self.actions.choices
        if len(set(choices)) == 1:
            best: NDArray[np.int64] = scores.reshape(len(scores), -1, choices[0]).argmax(-1)
            return best
        ends = np.cumsum(choices)[:-1]
        return np.stack([part.argmax(-1) for part in np.split(scores, ends, axis=-1)], axis=-1)

    def _sample(
        self, outputs: tuple[NDArray[np.float32], ...], arrays: Mapping[str, NDArray[Any]]
    ) -> NDArray[Any]:
        if self.actions.choices:
            # Gumbel-max trick.
            gumbel = self.rng.gumbel(size=outputs[0].shape).astype(np.float32)
            return self._most_likely(outputs[0] + gumbel)
        if len(outputs) == 3:
            return np.tanh(outputs[1] + outputs[2] * self._noise(outputs[1].shape))
        if self.network.std is None:
            return outputs[0]
        noise = self._noise(outputs[0].shape)
        used = self._used(arrays)
        return outputs[0] + self.network.std * (noise if used is None else noise * used)

    def _noise(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        return self.rng.standard_normal(shape, dtype=np.float32)

    def _find_slot_mask(self) -> str | None:
        """Leaf with the mask of the slots that continuous actions belong to."""
        if self.actions.is_choice or backbone_name(self.leaves, self.settings) in ("mlp", "cnn"):
            return None
        slots = slots_of(self.leaves, self.settings)
        has_own = slots is not None and self.actions.size in (slots.count, slots.count + 1)
        return slots.mask if has_own and slots is not None else None

    def _used(self, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_] | None:
        """Mask of the action components in use; None for all."""
        if self._slot_mask is None:
            return None
        mask = arrays[self._slot_mask]
        used = np.ones((len(mask), self.actions.size), np.bool_)
        np.not_equal(mask, 0, out=used[:, : mask.shape[1]])
        return used
