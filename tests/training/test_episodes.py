"""Returns and lengths of episodes, and schedules and streams that training runs on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sekai.training.agent_settings import scheduled
from sekai.training.rng import RandomStream
from sekai.training.rollout import RECENT, EpisodeStatistics


def _add(episodes: EpisodeStatistics, rewards: list[float], done: list[bool]) -> None:
    episodes.add(np.array(rewards), np.array(done))


def test_an_episode_counts_when_it_ends() -> None:
    episodes = EpisodeStatistics(2)

    _add(episodes, [1.0, 10.0], [False, True])
    _add(episodes, [2.0, 20.0], [True, False])
    summary = episodes.summary

    assert summary.episodes == 2
    assert summary.episode_return == (10.0 + 3.0) / 2
    assert summary.episode_length == 1.5


def test_before_the_first_end_there_is_nothing_to_tell() -> None:
    summary = EpisodeStatistics(1).summary

    assert summary.episodes == 0
    assert np.isnan(summary.episode_return)
    assert np.isnan(summary.episode_length)


def test_only_recent_episodes_make_up_the_means() -> None:
    episodes = EpisodeStatistics(1)

    for reward in range(RECENT + 50):
        _add(episodes, [float(reward)], [True])

    assert episodes.summary.episodes == RECENT + 50
    assert episodes.summary.episode_return == np.arange(50, RECENT + 50).mean()


def test_episodes_go_on_from_a_saved_state() -> None:
    episodes, other = EpisodeStatistics(2), EpisodeStatistics(2)
    _add(episodes, [1.0, 2.0], [False, True])
    state = episodes.state_dict()
    other.load_state_dict(state)

    for one in (episodes, other):
        _add(one, [4.0, 8.0], [True, True])

    assert other.summary == episodes.summary
    assert other.summary.episode_return == (2.0 + 5.0 + 8.0) / 3


def test_a_constant_schedule_stays_and_a_linear_one_ends_at_zero() -> None:
    assert scheduled(0.3, "constant", 0.9) == 0.3
    assert scheduled(0.4, "linear", 0.0) == 0.4
    assert scheduled(0.4, "linear", 0.25) == pytest.approx(0.3)
    assert scheduled(0.4, "linear", 1.5) == 0.0


def test_a_stream_goes_on_where_it_was_left() -> None:
    whole = RandomStream(3)
    with whole:
        wanted = torch.rand(4)
    parts = RandomStream(3)

    with parts:
        first = torch.rand(2)
    torch.rand(7)
    with parts:
        second = torch.rand(2)

    assert torch.equal(torch.cat([first, second]), wanted)


def test_streams_of_others_are_left_alone() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(2)
    torch.manual_seed(5)

    with RandomStream(1):
        torch.rand(3)
        with RandomStream(2):
            torch.rand(3)

    assert torch.equal(torch.rand(2), wanted)


def test_an_error_inside_gives_the_outer_stream_back() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(2)
    torch.manual_seed(5)

    def fail() -> None:
        with RandomStream(1):
            torch.rand(3)
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()

    assert torch.equal(torch.rand(2), wanted)


def test_other_seeds_are_other_streams() -> None:
    with RandomStream(1):
        first = torch.rand(4)
    with RandomStream(2):
        second = torch.rand(4)

    assert not torch.equal(first, second)
