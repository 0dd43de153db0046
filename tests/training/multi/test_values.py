"""What MADDPG and QMIX think the future is worth, and who counts in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sekai.spaces import Box, Dict
from sekai.training import MADDPG, QMIX
from sekai.training.multi_agent.off_policy import AgentTransitions
from sekai.training.observations import tensors_of
from sekai.training.qmix import STATE
from tests.training.games import Chain, Spread
from tests.training.multi.worlds import Coming

LEARNING: dict[str, Any] = {
    "steps_per_iteration": 8,
    "learning_starts": 64,
    "batch_size": 64,
    "learning_rate": 1e-2,
    "gamma": 0.5,
    "tau": 0.2,
    "norm_reward": False,
    "policy": {"net_arch": (16,)},
}


def rows_of(agent: Any) -> dict[str, Tensor]:
    """What is seen at the three places of a chain, by all agents."""
    world = agent.vec
    nothing = {
        name: np.zeros((world.num_envs, *(space.shape or ())), space.dtype)
        for name, space in world.action_space.spaces.items()
    }
    seen = [world.reset(seed=0).observations]
    seen += [world.step(nothing).observations for _ in range(2)]
    found = [tensors_of(one) for one in seen]
    return {name: torch.stack([one[name][0] for one in found]) for name in found[0]}


def wanted(is_cut: bool) -> list[float]:
    return [2.0, 2.0, 2.0] if is_cut else [1.75, 1.5, 1.0]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_cut", [True, False], ids=["cut off", "over"])
def test_qmix_values_a_constant_reward_at_its_sum(is_cut: bool) -> None:
    agent = QMIX(Chain(8, is_cut), seed=0, exploration_steps=500, **LEARNING).fit(1_200)
    seen = rows_of(agent)
    network = agent.network

    with torch.no_grad():
        inputs = network.inputs(seen)
        best = network.values(inputs).amax(-1, keepdim=True)
        present = torch.ones(3, 2)
        values = network.mixer(best, present, network.state(seen, inputs, present)).reshape(-1)

    np.testing.assert_allclose(values.numpy(), wanted(is_cut), atol=0.15)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("is_cut", "discrete"),
    [(True, True), (False, True), (False, False)],
    ids=["cut off, picks", "over, picks", "over, numbers"],
)
def test_maddpg_values_a_constant_reward_at_its_sum(is_cut: bool, discrete: bool) -> None:
    agent = MADDPG(Chain(8, is_cut, discrete), seed=0, **LEARNING).fit(1_200)
    seen = rows_of(agent)
    network = agent.network

    with torch.no_grad():
        chosen = network.choose(seen, deterministic=True)
        moves = network.as_read(chosen, torch.ones(3, 2))
        critic = network.critics[1]
        values = critic(network.inputs(seen), torch.ones(3, 2), *moves.values()).reshape(-1)

    np.testing.assert_allclose(values.numpy(), wanted(is_cut), atol=0.15)


def test_qmix_learns_at_one_rate_and_others_at_that_of_their_actors_too() -> None:
    game = Chain(2, True)
    rates = [
        {group["scale"] for group in kind(game, policy={"net_arch": (4,)}).optimizer.param_groups}
        for kind in (QMIX, MADDPG)
    ]

    assert rates == [{1.0}, {0.3, 1.0}]
    with pytest.raises(ValueError, match="actor_lr_scale"):
        QMIX(game, actor_lr_scale=0.5)


def filled(kind: Any, world: Any = Coming) -> Any:
    agent = kind(
        world,
        seed=2,
        n_envs=4,
        steps_per_iteration=40,
        learning_starts=10_000,
        policy={"net_arch": (8,)},
    )
    return agent.fit(160)


def disturbed(drawn: dict[str, Any]) -> dict[str, Any]:
    """The same steps, with other actions of agents that were away."""
    paid = AgentTransitions.of(drawn)
    action = drawn["action"].clone()
    assert bool((~paid.acted).any())
    action[~paid.acted] = 1.0 - action[~paid.acted]
    return {**drawn, "action": action}


@pytest.mark.parametrize("kind", [MADDPG, QMIX])
def test_what_agents_do_who_are_away_makes_no_difference(kind: Any) -> None:
    agent = filled(kind)
    drawn = agent.replay.sample(64)
    found = []
    for steps in (drawn, disturbed(drawn)):
        agent.replay.sample = lambda _, steps=steps: steps
        torch.manual_seed(0)
        if kind is QMIX:
            rows = torch.ones(64, dtype=torch.bool)
            found.append(float(agent._mixed_loss(steps, AgentTransitions.of(steps), rows).detach()))
        else:
            batch, known = agent._joint_sample()
            losses = agent._agent_losses(0, batch.select(known[:, 0]))
            found.append(float(losses["loss_value"].detach()))

    assert found[0] == found[1] != 0.0


def test_steps_are_learnt_from_by_those_who_acted_alone() -> None:
    drawn = filled(MADDPG).replay.sample(256)
    paid = AgentTransitions.of(drawn)

    assert not bool((paid.known & ~paid.acted).any())
    assert bool((paid.acted & ~paid.known).any())
    assert bool(paid.known.any())


def test_qmix_looks_for_the_best_among_what_is_allowed() -> None:
    agent: Any = QMIX(Spread(6, masked=True), seed=0, policy={"net_arch": (8,)})
    game = Spread(6, masked=True)
    seen = game.reset(seed=0).observations
    mask = np.stack([seen[name]["action_mask"] for name in game.possible_agents], axis=1)
    assert (mask == 0).any()

    with torch.no_grad():
        # What is forbidden looks best by far.
        agent.network.values.each[0].value.weight.zero_()
        agent.network.values.each[0].value.bias.copy_(torch.tensor([5.0, 0.0, 4.0]))
    actions = agent.predict_batch(seen)

    picked = np.stack(list(actions.values()), axis=1)
    np.testing.assert_array_equal(picked, np.where(mask[:, :, 0], 0, 2))


def test_no_move_that_a_mask_forbids_is_ever_made() -> None:
    # The game itself raises where one is.
    for kind in (QMIX, MADDPG):
        kind(
            Spread(8, masked=True),
            seed=0,
            steps_per_iteration=8,
            learning_starts=64,
            batch_size=16,
            policy={"net_arch": (8,)},
        ).fit(512)


def test_the_state_that_an_env_tells_is_for_the_mixer_alone() -> None:
    class Told(Chain):
        def __init__(self, num_envs: int, is_cut: bool) -> None:
            super().__init__(num_envs, is_cut)
            own = self.observation_spaces["agent_0"]
            told = Dict({"own": own, STATE: Box(0.0, 9.0, (5,), np.float32)})
            self.observation_spaces = dict.fromkeys(self.possible_agents, told)

        def show(self, board: Any, move: Any, agent: int) -> Any:
            state = np.full((len(move), 5), 7.0, np.float32)
            return {"own": super().show(board, move, agent), STATE: state}

    agent = QMIX(
        Told(4, True), seed=0, steps_per_iteration=8, learning_starts=16, batch_size=8
    ).fit(64)

    assert agent.network._state_width() == 5
    assert all(STATE not in name for name in agent.network.inputs.leaves)
    seen = agent.replay.sample(8)["observation"]
    state = agent.network.state(seen, agent.network.inputs(seen), seen["alive"])
    assert bool((state == 7.0).all())
