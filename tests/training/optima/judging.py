"""How near an agent came to what is known to be best."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.training import Agent
from sekai.training.off_policy import OffPolicyAgent
from tests.training.optima.kelly import best_share, growth
from tests.training.optima.merton import Merton, best_weight, certain_growth

__all__ = ["critic_values", "kelly_share", "merton_share"]


def kelly_share(agent: Agent, chances: tuple[float, float] = (0.6, 0.6)) -> float:
    """Growth as a share of the best, over coins of all chances."""
    chance = np.linspace(*chances, 11)
    bets = agent.predict_batch(chance.astype(np.float32)[:, None])[:, 0].astype(np.float64)
    best = growth(chance, best_share(chance))
    return float(growth(chance, bets).mean() / best.mean())


def merton_share(agent: Agent, aversion: float) -> float:
    """Growth that is worth as much for sure, as a share of the best, over a whole episode."""
    weights = agent.predict_batch(Merton(1, aversion).shown())[:, -1].astype(np.float64)
    best = certain_growth(np.array(best_weight(aversion)), aversion)
    return float(certain_growth(weights, aversion).mean() / best)


@torch.no_grad()
def critic_values(agent: Any, seen: dict[str, Tensor]) -> NDArray[np.float64]:
    """What the critics say, in rewards as they are learnt from; of actions, the ones chosen."""
    if not isinstance(agent, OffPolicyAgent):
        values: Tensor = agent.network.critic(seen)
        return values[:, 0].double().numpy()
    chosen = agent.network.choose(seen, deterministic=True)
    inputs = agent.network.inputs(seen)
    found = [critic(inputs, chosen)[:, 0] for critic in agent.network.critics]
    return torch.stack(found).amin(0).double().numpy()
