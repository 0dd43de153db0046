"""Players of several agents: one for each of them, or one that decides for all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sekai.evaluation.arena import Arena
from sekai.evaluation.players import Ground, Moment, Player, player_of
from sekai.evaluation.team_vec import Seat, TeamVec, told_of

__all__ = ["Team", "team_of"]


class Team(Player):
    """Agents that are played one by one, each by whoever is theirs, in one market."""

    def __init__(self, name: str, given: Callable[[], Player] | Mapping[str, Player]) -> None:
        """Say who plays.

        Args:
            name: what the team is called.
            given: a player of each agent, by name; or what makes one, asked for each of them.
        """
        self.name, self._given = name, given
        self._players: dict[str, Player] = dict(given) if isinstance(given, Mapping) else {}

    def where(self, arena: Arena) -> Arena:
        """Where any of those would play who are all alike; others play where they are."""
        # What suits one of several kinds would change the market of the others.
        return arena if isinstance(self._given, Mapping) else self._given().where(arena)

    def begin(self, ground: Ground) -> None:
        """Let everybody take a place."""
        super().begin(ground)
        team = _vec_of(ground)
        if not isinstance(self._given, Mapping) and not self._players:
            self._players = {agent: self._given() for agent in team.agents}
        if set(self._players) != set(team.agents):
            raise ValueError(
                f"a policy for each of the agents {team.agents} was wanted, found those of "
                f"{list(self._players)}"
            )
        for place, agent in enumerate(team.agents):
            # Agents that draw from the same seed would all do the same.
            seeds = tuple(seed * len(team.agents) + place for seed in ground.seeds)
            self._players[agent].begin(Ground(Seat(team, agent), ground.task, seeds))

    def decide(self, moment: Moment) -> dict[str, Any]:
        """What everybody decides, by agent."""
        return {
            agent: player.decide(_seen_by(agent, moment)) for agent, player in self._players.items()
        }

    def wait(self, moment: Moment) -> dict[str, Any]:
        """What everybody decides who does nothing."""
        return {
            agent: player.wait(_seen_by(agent, moment)) for agent, player in self._players.items()
        }

    def send(self, decided: dict[str, Any], moment: Moment) -> dict[str, Any]:
        """The actions for what everybody has decided."""
        return {
            agent: player.send(decided[agent], _seen_by(agent, moment))
            for agent, player in self._players.items()
        }


class _Whole(Player):
    """A policy that decides for all agents at once."""

    def __init__(self, name: str, policy: Any) -> None:
        self.name, self._policy = name, policy

    def decide(self, moment: Moment) -> Any:
        if moment.masks is None:
            return self._policy.predict_batch(moment.observations)
        masks = {agent: _masks_of(agent, moment) for agent in _vec_of(self.ground).agents}
        told = {agent: own for agent, own in masks.items() if own is not None}
        return self._policy.predict_batch(moment.observations, action_mask=told)

    def wait(self, moment: Moment) -> dict[str, Any]:
        """What each would decide who does nothing."""
        team = _vec_of(self.ground)
        return {
            agent: self.ground.task.idle(Seat(team, agent), _seen_by(agent, moment))
            for agent in team.agents
        }


def team_of(policy: Any, name: str | None, known: Callable[[str], Player | None]) -> Player:
    """Whatever can decide for several agents, as a player.

    Args:
        policy: a policy of all agents; one for each, by name; or one that every agent is played
            with: all that `player_of` takes, or the name of a baseline.
        name: what it is called; taken from the policy if not given.
        known: the baseline of a name, anew for every call; None if there is none.
    """
    if isinstance(policy, Player):
        return policy
    if isinstance(policy, Mapping):
        players = {agent: _one(own, known) for agent, own in policy.items()}
        return Team(name or "team", players)
    if isinstance(policy, (str, os.PathLike)) and known(os.fspath(policy)) is None:
        from sekai.training import load_policy

        return team_of(load_policy(policy), name or Path(policy).stem, known)
    if hasattr(getattr(policy, "policy", policy), "action_spaces"):
        return _Whole(name or type(policy).__name__, policy)
    return Team(name or _one(policy, known).name, lambda: _one(policy, known))


def _one(policy: Any, known: Callable[[str], Player | None]) -> Player:
    found = known(policy) if isinstance(policy, str) else None
    return player_of(policy) if found is None else found


def _vec_of(ground: Ground) -> TeamVec:
    assert isinstance(ground.vec, TeamVec), "teams play where there are several agents"
    return ground.vec


def _seen_by(agent: str, moment: Moment) -> Moment:
    """What one agent knows."""
    told = told_of(agent, moment.infos)
    return Moment(moment.observations[agent], told, _masks_of(agent, moment), moment.step)


def _masks_of(agent: str, moment: Moment) -> list[Any] | None:
    """What one agent is allowed in each env; None where it is told of no mask."""
    found = [(masks or {}).get(agent) for masks in moment.masks or ()]
    return found if any(mask is not None for mask in found) else None
