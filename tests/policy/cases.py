"""Networks of every architecture with random weights, and observations for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sekai.policy import NativePolicy, PolicySettings
from sekai.policy.observations import leaves_of
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiBinary, MultiDiscrete, Simplex, Space
from sekai.training import A2C, DDPG, DQN, PPO, SAC, TD3
from sekai.training.actions import ActionMap
from sekai.training.rng import RandomStream
from sekai.training.trained_policy import TrainedPolicy

ALGORITHMS: dict[str, Any] = {kind.__name__: kind for kind in (PPO, A2C, DDPG, SAC, TD3, DQN)}
SLOTS, TIMES, CHANNELS = 5, 6, 3

FLAT = Box(-np.inf, np.inf, (9,))
MIXED = Dict(
    {
        "prices": Box(-np.inf, np.inf, (4, 3), np.float64),
        "regime": Discrete(3, start=-1),
        "flags": MultiBinary(4),
        "levels": MultiDiscrete([2, 5]),
        "clock": Box(0.0, 1.0, ()),
    }
)
IMAGE = Dict({"screen": Box(0, 255, (20, 16, 3), np.uint8), "speed": Box(-1.0, 1.0, (2,))})
FIRST_IMAGE = Box(0, 255, (1, 40, 40), np.uint8)


def portfolio_space(slots: int) -> Dict:
    """Observations of a portfolio of several assets."""
    return Dict(
        {
            "windows": Box(-np.inf, np.inf, (TIMES, slots, CHANNELS)),
            "mask": MultiBinary(slots),
            "weights": Box(-1.0, 1.0, (slots + 1,)),
            "market": Box(-np.inf, np.inf, (2,)),
        }
    )


PORTFOLIO = portfolio_space(SLOTS)
UNMASKED = Dict({"windows": Box(-np.inf, np.inf, (TIMES, SLOTS, CHANNELS))})
SLOTTED = MaskedBox(-5.0, 5.0, (SLOTS, 4))
MASKED_CHOICE = Dict({"numbers": Box(-1.0, 1.0, (4,)), "action_mask": MultiBinary(7)})
SLOT_CHOICE = Dict({**PORTFOLIO.spaces, "action_mask": MultiBinary(3 * SLOTS)})

CONTINUOUS = Box(np.array([-1.0, 0.0]), np.array([3.0, 1.0]), dtype=np.float64)
UNBOUNDED = Box(np.array([-np.inf, 0.0]), np.array([np.inf, 1.0]))
TILTS = MultiDiscrete([3] * SLOTS)
PICKS = MultiDiscrete([2, 5])


@dataclass(frozen=True)
class Case:
    """A network to compare."""

    observation_space: Space[Any]
    action_space: Space[Any]
    settings: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "PPO"
    options: dict[str, Any] = field(default_factory=dict)
    """Further settings of the algorithm."""


def _cases() -> dict[str, Case]:
    cases = {
        "mlp tanh": Case(FLAT, CONTINUOUS),
        "mlp relu, unbounded": Case(FLAT, UNBOUNDED, {"activation": "relu"}),
        "mlp silu, one layer": Case(FLAT, CONTINUOUS, {"activation": "silu", "net_arch": (70,)}),
        "mlp without layers": Case(FLAT, Discrete(4), {"net_arch": ()}),
        "mlp, raw observations": Case(FLAT, Discrete(4), {"norm_obs": False}, "A2C"),
        "mlp of one-hot inputs": Case(MIXED, PICKS, algorithm="A2C"),
        "mlp with a shared body": Case(FLAT, PICKS, {"share_features_extractor": True}),
        "mlp of a portfolio": Case(PORTFOLIO, Simplex(SLOTS + 1), {"backbone": "mlp"}),
        "mlp with action masks": Case(MASKED_CHOICE, Discrete(7, start=2)),
        "mlp with masks of two picks": Case(MASKED_CHOICE, PICKS),
        "cnn": Case(IMAGE, Discrete(3)),
        "cnn, channels first": Case(FIRST_IMAGE, CONTINUOUS, {"cnn_features": 24}),
        "cnn with own layers": Case(IMAGE, PICKS, {"cnn_layers": ((5, 4, 3), (7, 2, 1))}),
        "mean without masks": Case(UNMASKED, Simplex(SLOTS), {"slots_leaf": "windows"}),
        "mean of a MaskedBox": Case(SLOTTED, Box(-1.0, 1.0, (SLOTS,)), {"activation": "relu"}),
        "tilts": Case(PORTFOLIO, TILTS, {"width": 16}),
        "tilts with action masks": Case(SLOT_CHOICE, TILTS, {"width": 16}, "A2C"),
        "sectors": Case(
            PORTFOLIO,
            Simplex(SLOTS + 1),
            {"backbone": "graph", "graph": "sectors", "sectors": ("a", "b", "a", "", "")},
        ),
    }
    for backbone in ("mean", "max", "attention", "graph"):
        for encoder in ("mlp", "convolution", "gru"):
            settings = {"backbone": backbone, "encoder": encoder, "width": 24, "heads": 3}
            cases[f"{backbone} of {encoder}"] = Case(
                PORTFOLIO, Simplex(SLOTS + 1), {**settings, "aggregator_layers": 2}
            )
    for algorithm in ("DDPG", "SAC", "TD3"):
        cases[f"{algorithm} mlp"] = Case(FLAT, CONTINUOUS, {"activation": "relu"}, algorithm)
        cases[f"{algorithm} mean"] = Case(
            PORTFOLIO, Simplex(SLOTS + 1), {"activation": "silu"}, algorithm
        )
        cases[f"{algorithm} of slots"] = Case(
            PORTFOLIO, Box(-1.0, 1.0, (SLOTS,)), {"backbone": "attention"}, algorithm
        )
    cases["DQN mlp"] = Case(FLAT, Discrete(4, start=-1), algorithm="DQN")
    cases["DQN with action masks"] = Case(MASKED_CHOICE, Discrete(7, start=2), algorithm="DQN")
    variants: dict[str, dict[str, Any]] = {
        "quantile DQN": {"n_quantiles": 5},
        "dueling DQN": {"dueling": True},
        "dueling quantile DQN": {"dueling": True, "n_quantiles": 3},
    }
    for name, options in variants.items():
        cases[name] = Case(PORTFOLIO, Discrete(3), algorithm="DQN", options=options)
    return cases


CASES = _cases()


def policies(case: Case, seed: int = 0) -> tuple[NativePolicy, TrainedPolicy]:
    """A native and a torch policy with the same random weights and moments."""
    settings = PolicySettings(**case.settings)
    kind = ALGORITHMS[case.algorithm]
    agent_settings = kind.settings_type().replaced(policy=settings.to_dict(), **case.options)
    network = kind.make_network(
        leaves_of(case.observation_space), ActionMap(case.action_space), agent_settings
    )
    randomize(network, seed)
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    spaces = case.observation_space, case.action_space
    native = NativePolicy(case.algorithm, *spaces, settings, weights)
    make = partial(kind.make_network, settings=agent_settings)
    return native, TrainedPolicy(network, *spaces, RandomStream(0), make=make)


def trained_on(policy: TrainedPolicy, *spaces: Space[Any]) -> TrainedPolicy:
    """The torch policy on other spaces."""
    observation_space, action_space = spaces
    return policy.on_spaces(observation_space, action_space)


@torch.no_grad()
def randomize(network: torch.nn.Module, seed: int) -> None:
    """Draw weights of the usual size, biases and moments."""
    generator = torch.Generator().manual_seed(seed)
    names = network.state_dict().keys()
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if name in names:
            drawn = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            tensor.copy_(_sized(name, drawn))
    # The normalizer computes its scales when it is loaded.
    network.load_state_dict(network.state_dict())


def _sized(name: str, drawn: torch.Tensor) -> torch.Tensor:
    if "count" in name:
        return drawn.abs() + 10.0
    if "variance" in name:
        return drawn.square() + 0.1
    if name.endswith(("_norm.weight", "before.weight")):
        return 1.0 + 0.1 * drawn
    if "log_std" in name:
        return 0.3 * drawn - 1.0
    return drawn * (1.4 / np.sqrt(drawn[0].numel()) if drawn.dim() > 1 else 0.5)


def observations(space: Space[Any], count: int, rng: np.random.Generator) -> Any:
    """A batch of observations, of amounts of several sizes and with unused slots."""
    if isinstance(space, Dict):
        return {name: observations(part, count, rng) for name, part in space.spaces.items()}
    if isinstance(space, MaskedBox):
        mask = rng.random((count, space.slots)) < 0.7
        values = rng.normal(size=(count, *space.shape)).clip(-5, 5).astype(space.dtype)
        return {"values": values * mask[..., None], "mask": mask.astype(np.int8)}
    if isinstance(space, Discrete):
        return rng.integers(space.start, space.start + space.n, count)
    if isinstance(space, MultiDiscrete):
        return rng.integers(0, space.nvec, (count, *space.shape)) + space.start
    if isinstance(space, MultiBinary):
        return _mask(space.shape, count, rng)
    assert isinstance(space, Box)
    shape = (count, *space.shape)
    if space.dtype == np.uint8:
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if np.isfinite(np.ravel(space.low)).all():
        return rng.uniform(space.low, space.high, shape).astype(space.dtype)
    size = 10.0 ** rng.uniform(-2, 1, (count, *(1,) * len(space.shape)))
    return (rng.normal(size=shape) * size).astype(space.dtype)


def _mask(shape: tuple[int, ...], count: int, rng: np.random.Generator) -> NDArray[np.int8]:
    mask = rng.random((count, *shape)) < rng.choice([0.3, 0.8, 1.0], (count, *(1,) * len(shape)))
    mask[: max(1, count // 50)] = False
    if shape[0] in (7, 3 * SLOTS):
        # An action mask allows something of every pick.
        mask[:, [0, 2]] = True
        mask[:, 0::3] = True
    return mask.astype(np.int8)
