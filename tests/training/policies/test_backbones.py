"""Backbones by name, for every observation that has assets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sekai.policy.observations import Leaf, leaves_of, slots_of
from sekai.spaces import Box, Dict, MaskedBox, MultiBinary, Simplex, Space
from sekai.training import PPO, PolicySettings, register_backbone
from sekai.training.actions import ActionMap
from sekai.training.observations import tensors_of
from sekai.training.policies.actor_critic import (
    BACKBONES,
    ActorCritic,
    Backbone,
    Features,
    MLPBackbone,
    backbone,
)
from sekai.training.policies.aggregators import Graph, correlations
from sekai.training.policies.assets import ENCODERS, AssetBackbone, encoder
from sekai.vector.batching import Batcher
from tests.training.policies.universe import (
    AGGREGATORS,
    CHANNELS,
    TIMES,
    network,
    observation_space,
    observations,
)

PLAIN = Box(-1.0, 1.0, (4, 3), np.float32)


@pytest.fixture
def mine() -> Iterator[str]:
    yield "mine"
    BACKBONES.pop("mine", None)


def test_auto_reads_assets_one_by_one_where_there_are_any() -> None:
    assets = leaves_of(observation_space(3))

    assert isinstance(backbone(assets, PolicySettings()), AssetBackbone)
    assert isinstance(backbone(leaves_of(PLAIN), PolicySettings()), MLPBackbone)
    named = PolicySettings(slots_leaf="observation")
    assert isinstance(backbone(leaves_of(PLAIN), named), AssetBackbone)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_backbone_of_assets_says_what_it_misses(name: str) -> None:
    with pytest.raises(ValueError, match=f"backbone '{name}' needs assets.*slots_leaf"):
        backbone(leaves_of(PLAIN), PolicySettings(backbone=name))


def test_an_unknown_backbone_says_which_there_are() -> None:
    with pytest.raises(ValueError, match="one of auto, mlp, attention, graph, mean, max, cnn"):
        backbone(leaves_of(PLAIN), PolicySettings(backbone="m"))
    with pytest.raises(ValueError, match="encoder must be one of mlp, convolution, gru"):
        encoder(3, 2, 1, PolicySettings(encoder="m"))


class Mine(Backbone):
    def __init__(self, leaves: Mapping[str, Leaf], settings: PolicySettings) -> None:
        super().__init__()
        self.width = 2

    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        return Features(inputs["account"][:, :2])


def test_who_brings_a_backbone_can_name_it(mine: str) -> None:
    register_backbone(mine, Mine)

    agent: Any = PPO("Portfolio-v0", policy=mine, n_envs=2, n_steps=4, batch_size=8)

    assert isinstance(agent.network.actor.body, Mine)
    agent.fit(8)
    with pytest.raises(ValueError, match="'mine' is already registered"):
        register_backbone(mine, Mine)


SETTINGS = [
    PolicySettings(
        backbone="attention", heads=2, width=8, encoder="gru", share_features_extractor=True
    ),
    PolicySettings(backbone="graph", graph="sectors", sectors=("a", "", "a")),
    PolicySettings(slots_leaf="a", mask_leaf="b", weights_leaf="c", correlated_feature=2),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_come_back_from_toml(settings: PolicySettings, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(settings.to_toml())

    assert PolicySettings.from_toml(file) == settings


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"backbone": "attention", "width": 10, "heads": 4}, "width must be a multiple of the 4"),
        ({"graph": "friends"}, "graph must be one of"),
        ({"correlated_feature": -1}, "correlated_feature must be an integer"),
        ({"width": 0}, "width must be a whole number"),
    ],
)
def test_bad_settings_are_refused(bad: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        PolicySettings(**bad)


SHAPES: list[tuple[Space[Any], dict[str, Any]]] = [
    (MaskedBox(-1.0, 1.0, (4, 3)), {}),
    (MaskedBox(-1.0, 1.0, (4,)), {}),
    (MaskedBox(-1.0, 1.0, (4, 2, 3)), {}),
    (Dict({"assets": MaskedBox(-1.0, 1.0, (4, 3)), "cash": Box(0.0, 1.0, (1,))}), {}),
    (PLAIN, {"slots_leaf": "observation"}),
    (Box(-1.0, 1.0, (5, 4, 3), np.float32), {"slots_leaf": "observation"}),
    (
        Dict({"rows": PLAIN, "there": MultiBinary(4), "held": Box(0.0, 1.0, (4,))}),
        {"slots_leaf": "rows", "mask_leaf": "there", "weights_leaf": "held"},
    ),
]


@pytest.mark.parametrize(("space", "named"), SHAPES)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_assets_of_every_shape_are_read(
    space: Space[Any], named: dict[str, Any], encoder: str
) -> None:
    settings = PolicySettings(encoder=encoder, width=8, **named)
    policy = ActorCritic(leaves_of(space), ActionMap(Simplex(5)), settings)
    space.seed(0)
    seen = tensors_of(Batcher(space).stack([space.sample() for _ in range(6)]))

    policy.inputs.update(seen)
    used = policy.used(seen)
    weights = policy.actor.actions.to_env(policy.choose(seen, False), used)

    assert isinstance(policy.actor.body, AssetBackbone)
    assert weights.shape == (6, 5)
    assert (used is None) == (policy.actor.body.mask_name is None)
    if used is not None:
        assert (weights[~used.numpy()] == 0).all()
    assert policy.critic(seen).shape == (6, 1)


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"slots_leaf": "rows"}, "the observation has no 'rows', but windows"),
        ({"slots_leaf": "account"}, "slots_leaf must be of slots by features"),
        ({"slots_leaf": "windows", "mask_leaf": "account"}, r"mask_leaf must have shape \(3,\)"),
        ({"slots_leaf": "windows", "weights_leaf": "mask2"}, "no 'mask2'"),
    ],
)
def test_leaves_that_do_not_fit_are_refused(named: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        slots_of(leaves_of(observation_space(3)), PolicySettings(**named))


def test_sectors_make_neighbours_and_who_has_none_hears_nothing() -> None:
    sectors = ("a", "b", "a", "")
    policy = network(4, backbone="graph", graph="sectors", sectors=sectors)
    graph = policy.actor.body.aggregate
    assert isinstance(graph, Graph)
    windows, mask = torch.zeros(1, 4, 2, 3), torch.ones(1, 4, dtype=torch.bool)

    near = graph._neighbours(windows, mask)[0]
    mask[0, 2] = False
    alone = graph._neighbours(windows, mask)[0]

    assert near.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert alone[0].tolist() == [0, 0, 0, 0], "its only neighbour is gone"
    with pytest.raises(ValueError, match="a sector for each of 3 slots.*has 4"):
        network(3, backbone="graph", graph="sectors", sectors=sectors)


def test_correlations_are_those_of_the_textbook() -> None:
    rows = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(0))
    rows[1, 3] = 5.0

    found = correlations(rows)

    oracle = torch.from_numpy(np.corrcoef(rows[0].numpy())).float()
    torch.testing.assert_close(found[0], oracle, atol=1e-5, rtol=1e-5)
    assert (found[1, 3] == 0).all(), "what does not move moves with nothing"


def test_a_correlation_graph_is_of_the_window_alone() -> None:
    settings = PolicySettings(backbone="graph", slots_leaf="observation")
    with pytest.raises(ValueError, match="windows of at least 2 rows, got 1"):
        backbone(leaves_of(PLAIN), settings)
    with pytest.raises(ValueError, match="correlated_feature must be one of 3 features"):
        network(3, backbone="graph", correlated_feature=3)


def test_those_that_move_together_are_nearer() -> None:
    policy = network(3, backbone="graph")
    graph = policy.actor.body.aggregate
    assert isinstance(graph, Graph)
    windows = torch.randn(1, 3, TIMES, CHANNELS, generator=torch.Generator().manual_seed(0))
    windows[0, 1] = windows[0, 0]

    near = graph._neighbours(windows, None)[0]

    assert near[0, 1] > near[0, 2]
    torch.testing.assert_close(near.sum(-1), torch.ones(3))
    assert (near.diagonal() == 0).all()


@pytest.mark.parametrize("name", ["convolution", "gru", "mlp"])
@pytest.mark.parametrize("times", [1, 2, 7])
def test_every_row_of_a_window_is_read(name: str, times: int) -> None:
    reader = encoder(times, 2, 1, PolicySettings(encoder=name, width=8))
    windows = torch.randn(1, 2, times, 2, requires_grad=True)

    reader(windows, torch.zeros(1, 2, 1))[:, 0].sum().backward()

    assert windows.grad is not None
    assert (windows.grad[0, 0] != 0).all()
    assert (windows.grad[0, 1] == 0).all(), "an asset knows nothing of another"


def test_a_shared_body_is_one() -> None:
    apart, shared = (
        network(3, backbone="mean"),
        network(3, backbone="mean", share_features_extractor=True),
    )
    seen = observations(4, 3)

    assert shared.critic.body is shared.actor.body
    assert apart.critic.body is not apart.actor.body
    assert len(list(shared.parameters())) < len(list(apart.parameters()))
    assert shared.critic(seen).shape == (4, 1)
