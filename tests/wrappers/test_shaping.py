from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.error import InvalidActionError, SpaceError
from sekai.spaces import Box, flatten, unflatten
from sekai.wrappers import (
    ActionMask,
    ClipAction,
    DelayAction,
    DelayObservation,
    FlattenObservation,
    FrameStackObservation,
    RescaleAction,
    TimeLimit,
    TransformObservation,
    TransformReward,
    ValidateAction,
)
from tests.worlds import Market, RandomWalk

ACTION = np.zeros(2, dtype=np.float32)


def test_flattened_observations_can_be_put_together_again() -> None:
    env, plain = FlattenObservation(Market(), dtype=np.float64), Market()

    flat = env.reset(seed=1).observation
    expected = plain.reset(seed=1).observation

    assert flat in env.observation_space
    assert np.array_equal(flat, flatten(plain.observation_space, expected, dtype=np.float64))
    restored = unflatten(plain.observation_space, flat)
    assert np.array_equal(restored["prices"], expected["prices"])


def test_flattened_observations_are_float32_by_default() -> None:
    env, plain = FlattenObservation(Market()), Market()

    flat = env.reset(seed=1).observation

    assert flat.dtype == env.observation_space.dtype == np.float32
    assert flat in env.observation_space
    assert np.array_equal(flat, flatten(plain.observation_space, plain.reset(seed=1).observation))


def test_a_frame_stack_holds_the_last_observations_oldest_first() -> None:
    env, plain = FrameStackObservation(RandomWalk(), 3), RandomWalk()
    frames = [plain.reset(seed=1).observation] * 3

    assert np.array_equal(env.reset(seed=1).observation, np.stack(frames))
    for _ in range(4):
        frames.append(plain.step(ACTION).observation)
        shown = env.step(ACTION).observation
        assert np.array_equal(shown, np.stack(frames[-3:]))
        assert shown in env.observation_space


def test_a_frame_stack_of_nested_observations_stacks_every_part() -> None:
    env = FrameStackObservation(Market(), 2)
    env.reset(seed=1)

    shown = env.step(2).observation

    assert shown["prices"].shape == (2, 3)
    assert shown["held"].tolist() == [0, 1]
    assert shown in env.observation_space


def test_a_frame_stack_survives_a_user_who_writes_into_it() -> None:
    env, twin = FrameStackObservation(RandomWalk(), 2), FrameStackObservation(RandomWalk(), 2)
    env.reset(seed=1).observation[:] = 99.0
    twin.reset(seed=1)

    assert env.step(ACTION) == twin.step(ACTION)


def test_a_frame_stack_needs_at_least_one_frame() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        FrameStackObservation(RandomWalk(), 0)


def test_clipped_actions_are_the_nearest_allowed_ones() -> None:
    env, plain = ClipAction(RandomWalk()), RandomWalk()
    env.reset(seed=1)
    plain.reset(seed=1)

    assert env.step(np.array([5.0, -0.5])) == plain.step(np.array([1.0, -0.5], np.float32))
    assert env.action_space == Box(-np.inf, np.inf, (2,), np.float32)


def test_an_action_that_is_not_a_number_cannot_be_clipped() -> None:
    env = ClipAction(RandomWalk())
    env.reset(seed=1)
    with pytest.raises(InvalidActionError, match="NaN"):
        env.step(np.array([np.nan, 0.0]))


@pytest.mark.parametrize("kind", [ClipAction, lambda env: RescaleAction(env, -1, 1)])
def test_only_a_box_can_be_clipped_or_rescaled(kind: Any) -> None:
    with pytest.raises(SpaceError, match=r"needs a Box action space, got Discrete\(3"):
        kind(Market())


class Volume(RandomWalk):
    """Takes actions between 10 and 30 in one direction and -2 and 2 in the other."""

    def __init__(self) -> None:
        super().__init__()
        low, high = np.array([10.0, -2.0], np.float32), np.array([30.0, 2.0], np.float32)
        self.action_space = Box(low, high, dtype=np.float32)


@pytest.mark.parametrize(
    ("given", "wanted"), [(-1.0, [10.0, -2.0]), (0.0, [20.0, 0.0]), (1.0, [30.0, 2.0])]
)
def test_rescaled_actions_reach_the_ends_exactly(given: float, wanted: list[float]) -> None:
    env = RescaleAction(Volume(), -1.0, 1.0)
    action = np.full(2, given, np.float32)

    mapped = env.action(action)

    assert mapped.tolist() == wanted
    assert mapped in env.env.action_space
    assert np.array_equal(env.reverse_action(mapped), action)


def test_every_rescaled_sample_is_allowed() -> None:
    env = RescaleAction(Volume(), 0.0, 0.3)
    env.action_space.seed(0)

    for _ in range(300):
        mapped = env.action(env.action_space.sample())
        assert env.env.action_space.mismatch(mapped) is None


def test_rescaling_refuses_what_is_out_of_its_range() -> None:
    env = RescaleAction(Volume(), -1.0, 1.0)
    for bad in (1.5, np.nan):
        with pytest.raises(InvalidActionError, match=r"between -1\.0 and 1\.0"):
            env.action(np.array([0.0, bad]))


def test_rescaling_needs_bounds() -> None:
    with pytest.raises(SpaceError, match="bounded Box"):
        RescaleAction(ClipAction(RandomWalk()), -1, 1)
    with pytest.raises(ValueError, match="min must be below max"):
        RescaleAction(RandomWalk(), 1, -1)


def test_observations_and_rewards_pass_through_the_callers_functions() -> None:
    space = Box(-np.inf, np.inf, (1,), np.float32)
    env = TransformReward(
        TransformObservation(RandomWalk(), lambda obs: obs[:1], space), lambda reward: -reward
    )
    plain = RandomWalk()

    first = env.reset(seed=2).observation
    assert np.array_equal(first, plain.reset(seed=2).observation[:1])
    assert env.step(ACTION).reward == -plain.step(ACTION).reward
    assert env.observation_space == space


def test_delayed_observations_arrive_late_and_rewards_on_time() -> None:
    env, plain = DelayObservation(RandomWalk(), 2), RandomWalk()
    seen = [plain.reset(seed=1).observation] * 3
    assert np.array_equal(env.reset(seed=1).observation, seen[0])

    for now in range(5):
        expected, shown = plain.step(ACTION), env.step(ACTION)
        seen.append(expected.observation)
        assert np.array_equal(shown.observation, seen[now + 1])
        assert shown.reward == expected.reward


def test_delayed_actions_take_effect_late() -> None:
    env, plain = DelayAction(RandomWalk(), 2), RandomWalk()
    env.reset(seed=1)
    plain.reset(seed=1)
    given = [np.full(2, push, np.float32) for push in (0.1, 0.2, 0.3, 0.4)]
    effective = [ACTION, ACTION, *given]

    for now, action in enumerate(given):
        assert env.step(action) == plain.step(effective[now])


def test_a_bad_action_is_refused_when_given_and_the_delay_line_stands_still() -> None:
    env, twin = DelayAction(RandomWalk(), 1), DelayAction(RandomWalk(), 1)
    env.reset(seed=1)
    twin.reset(seed=1)

    with pytest.raises(InvalidActionError):
        env.step(np.full(2, 7.0, np.float32))

    assert env.step(ACTION + 1) == twin.step(ACTION + 1)
    assert env.step(ACTION) == twin.step(ACTION)


def test_a_step_that_the_env_refuses_leaves_the_delay_line_as_it_was() -> None:
    class Picky(RandomWalk):
        refuse = False

        def step(self, action: Any) -> Any:
            if self.refuse:
                raise InvalidActionError("not now")
            return super().step(action)

    env, twin = DelayAction(Picky(), 1), DelayAction(Picky(), 1)
    env.reset(seed=1)
    twin.reset(seed=1)
    env.unwrapped.refuse = True
    with pytest.raises(InvalidActionError, match="not now"):
        env.step(ACTION + 1)
    env.unwrapped.refuse = False

    assert [env.step(ACTION) for _ in range(3)] == [twin.step(ACTION) for _ in range(3)]


def test_a_delay_over_discrete_actions_needs_a_first_action() -> None:
    with pytest.raises(ValueError, match=r"needs initial.*got None"):
        DelayAction(Market(), 1)

    env = DelayAction(Market(), 1, initial=np.intp(1))
    env.reset(seed=0)
    assert env.step(np.intp(2)).reward == 0.0


@pytest.mark.parametrize("kind", [DelayAction, DelayObservation])
def test_a_negative_delay_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="non-negative integer, got -1"):
        kind(RandomWalk(), -1)


@pytest.mark.parametrize("kind", [DelayAction, DelayObservation])
def test_a_delay_of_zero_changes_nothing(kind: Any) -> None:
    env, plain = kind(RandomWalk(), 0), RandomWalk()

    assert env.reset(seed=1) == plain.reset(seed=1)
    assert [env.step(ACTION + 1)] == [plain.step(ACTION + 1)]


def test_a_masked_env_tells_its_mask_and_refuses_what_it_forbids() -> None:
    env = ActionMask(Market())
    assert env.reset(seed=1).info["action_mask"].tolist() == [0, 1, 1]
    before = env.unwrapped.state_dict()["generators"]

    with pytest.raises(InvalidActionError, match="mask"):
        env.step(0)

    assert env.unwrapped.state_dict()["generators"] == before
    assert env.step(2).info["action_mask"].tolist() == [1, 1, 1]
    assert env.step(0).info["action_mask"].tolist() == [0, 1, 1]


def test_sampling_with_the_mask_never_meets_a_refusal() -> None:
    env = ActionMask(TimeLimit(Market(), 50))
    env.action_space.seed(0)
    result: Any = env.reset(seed=1)

    for _ in range(15):
        result = env.step(env.action_space.sample(mask=result.info["action_mask"]))

    assert np.isfinite(result.reward)


def test_a_mask_may_come_from_a_function() -> None:
    env = ActionMask(ValidateAction(Market()), mask_of=lambda env: np.array([0, 0, 1], np.int8))
    env.reset(seed=1)
    with pytest.raises(InvalidActionError):
        env.step(np.intp(1))


def test_a_mask_must_come_from_somewhere() -> None:
    with pytest.raises(TypeError, match=r"mask_of.*action_mask\(\)"):
        ActionMask(RandomWalk())


def test_who_writes_into_the_shown_mask_does_not_change_what_is_enforced() -> None:
    env = ActionMask(Market())

    env.reset(seed=1).info["action_mask"][:] = 1

    with pytest.raises(InvalidActionError, match="mask"):
        env.step(0)


class Reusing(RandomWalk):
    """Shows the same array every time, overwritten."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = np.zeros(2, np.float32)

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.shown[:] = result.observation
        return type(result)(self.shown, result.reward, False, False, {})


@pytest.mark.parametrize("layer", [FrameStackObservation, DelayObservation])
def test_an_env_that_reuses_its_array_does_not_rewrite_what_was_seen(layer: Any) -> None:
    env, plain = layer(Reusing(), 2), layer(RandomWalk(), 2)
    env.reset(seed=1)
    plain.reset(seed=1)

    for _ in range(4):
        shown, expected = env.step(ACTION), plain.step(ACTION)
        assert np.array_equal(shown.observation, expected.observation)


def test_an_action_on_its_way_is_out_of_reach_of_its_sender() -> None:
    env, plain = DelayAction(RandomWalk(), 1), RandomWalk()
    env.reset(seed=1)
    plain.reset(seed=1)
    action = np.full(2, 0.5, np.float32)

    env.step(action)
    plain.step(ACTION)
    action[:] = -1.0

    assert env.step(ACTION) == plain.step(np.full(2, 0.5, np.float32))


@pytest.mark.parametrize("share", np.linspace(0.0, 1.0, 101))
def test_a_rescaled_action_never_leaves_a_narrow_range_by_rounding(share: float) -> None:
    class Narrow(RandomWalk):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = Box(0.1, 0.1, (2,), np.float64)

    env = RescaleAction(Narrow(), 0.0, 1.0)

    assert env.env.action_space.mismatch(env.action(np.full(2, share))) is None
