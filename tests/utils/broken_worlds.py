"""Environments that are each broken in one way, with the words in which that is reported."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.spaces import Box, Discrete
from tests.worlds import RandomWalk

Make = Callable[[], Any]


class Walk(RandomWalk):
    """A right env: what the broken ones are made from."""

    def _changed(self, result: StepResult[Any], **changes: Any) -> StepResult[Any]:
        names = ("observation", "reward", "terminated", "truncated", "info")
        return StepResult(**{name: changes.get(name, getattr(result, name)) for name in names})


class NoObservationSpace(Walk):
    def __init__(self) -> None:
        super().__init__()
        del self.observation_space


class ForeignSpace(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = (2,)  # type: ignore[assignment]


class SamplesOutside(Walk):
    class Space(Box):
        def sample(self, mask: None = None) -> Any:
            return super().sample() + np.float32(5)

    def __init__(self) -> None:
        super().__init__()
        self.action_space = self.Space(-1.0, 1.0, (2,), np.float32)


class SpaceGrows(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        self.action_space = Box(-2.0, 2.0, (2,), np.float32)
        return super().step(np.clip(action, -1, 1))


class ResetReturnsTuple(Walk):
    def reset(self, **arguments: Any) -> Any:
        result = super().reset(**arguments)
        return result.observation, result.info


class StepReturnsTuple(Walk):
    def step(self, action: Any) -> Any:
        result = super().step(action)
        return result.observation, result.reward, False, False, {}


class ResetTakesNoSeed(Walk):
    def reset(self, options: Any = None) -> Any:  # type: ignore[override]
        return super().reset(options=options)


class ResetTakesNoOptions(Walk):
    def reset(self, seed: Any = None) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)


class WrongShape(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), observation=np.zeros(3, np.float32))


class WrongDtype(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        result = super().step(action)
        return self._changed(result, observation=result.observation.astype(np.float64))


class NaNObservation(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        result = super().step(action)
        return self._changed(result, observation=result.observation * np.float32("nan"))


class OutOfBounds(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(-0.1, 0.1, (2,), np.float32)


class ArrayReward(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), reward=np.zeros(1))


class BoolReward(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), reward=True)


class NaNReward(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), reward=float("nan"))


class IntegerFlag(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), terminated=0)


class ArrayFlag(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), truncated=np.array([False, False]))


class NoInfo(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), info=None)


class RaisesLater(Walk):
    def reset(self, **arguments: Any) -> Any:
        self._left = 30
        return super().reset(**arguments)

    def step(self, action: Any) -> StepResult[Any]:
        self._left -= 1
        if not self._left:
            raise KeyError("book")
        return self._changed(super().step(action), terminated=False)


class NeverSeeds(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        return super().reset(options=options)


class SamplesItsSpace(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        super().reset(seed=seed)
        return ResetResult(self.observation_space.sample(), {})


class AlwaysTheSameSeed(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        return super().reset(seed=42)


class OwnFixedGenerator(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        self._own = np.random.RandomState(3)
        self._position = np.asarray(self._own.normal(size=2), np.float32)
        return ResetResult(self._position.copy(), {})

    def step(self, action: Any) -> StepResult[Any]:
        observation = np.asarray(self._own.normal(size=2), np.float32)
        return StepResult(observation, 0.0, False, False, {})


class GlobalNumpy(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        reward = float(np.random.normal())  # noqa: NPY002 - the mistake under test
        return self._changed(super().step(action), reward=reward)


class GlobalPython(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        random.seed(seed)
        return super().reset(seed=seed)

    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), reward=random.random())


class RemembersLastEpisode(Walk):
    _steps = 0

    def step(self, action: Any) -> StepResult[Any]:
        self._steps += 1
        return self._changed(super().step(action), reward=float(self._steps))


class RestartsWithoutSeed(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        return super().reset(seed=0 if seed is None else seed)


class CallsInInfo(Walk):
    calls = 0

    def step(self, action: Any) -> StepResult[Any]:
        CallsInInfo.calls += 1
        return self._changed(super().step(action), info={"calls": CallsInInfo.calls})


class GivesItsBuffer(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._buffer = np.zeros(2, np.float32)

    def step(self, action: Any) -> StepResult[Any]:
        result = super().step(action)
        self._buffer[:] = result.observation
        return self._changed(result, observation=self._buffer)


class GivesItsState(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), observation=self._position)


class GivesItsInfo(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._names = ["x", "y"]

    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), info={"names": self._names})


class SharesAnEmptyInfo(Walk):
    _nothing: dict[str, Any] = {}  # noqa: RUF012 - the mistake under test

    def step(self, action: Any) -> StepResult[Any]:
        return self._changed(super().step(action), info=self._nothing)


class KeepsTheAction(Walk):
    _last = np.zeros(2, np.float32)

    def reset(self, **arguments: Any) -> Any:
        self._last = np.zeros(2, np.float32)
        return super().reset(**arguments)

    def step(self, action: Any) -> StepResult[Any]:
        reward, self._last = float(self._last.sum()), action
        return self._changed(super().step(action), reward=reward)


class WritesToTheAction(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        result = super().step(action)
        action *= 2
        return result


class AnotherAsyncPath(Walk):
    def step(self, action: Any) -> StepResult[Any]:
        return super().step(action)

    async def async_step(self, action: Any) -> StepResult[Any]:
        return self._changed(self.step(action), reward=0.0)


class AsyncRaises(Walk):
    def reset(self, **arguments: Any) -> Any:
        return super().reset(**arguments)

    async def async_reset(self, **arguments: Any) -> Any:
        raise OSError("no route to host")


class ForgetsItsNoise(Walk):
    state_excludes = ("_rng",)


class CannotBeSaved(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._stream = (number for number in range(3))


class RefusesItsState(Walk):
    def load_state_dict(self, state_dict: Any) -> None:
        raise ValueError("version 3 wanted")


class UsesItsStateUp(Walk):
    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        state_dict["values"]["_position"] += 1


class ClosesOnce(Walk):
    def close(self) -> None:
        del self._position


class DiesAfterClose(Walk):
    def close(self) -> None:
        self._position = None  # type: ignore[assignment]


class Masked(Env[Any, Any]):
    """Three actions, of which the one that was just taken is masked."""

    mask: Any = None
    refuses: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.observation_space = Discrete(3)
        self.action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        self._steps = 0
        return ResetResult(np.intp(0), {"action_mask": np.array([0, 1, 1], np.int8)})

    def step(self, action: Any) -> StepResult[Any]:
        if int(action) in self.refuses:
            raise ValueError(f"{action} is not possible")
        self._steps += 1
        mask = np.ones(3, np.int8)
        mask[int(action)] = 0
        info = {"action_mask": mask if self.mask is None else self.mask}
        return StepResult(np.intp(action), 0.0, False, self._steps == 20, info)


class MaskOfWrongLength(Masked):
    mask = np.ones(2, np.int8)


class MaskOfNothing(Masked):
    mask = np.zeros(3, np.int8)


class MaskOfWrongForm(Masked):
    mask = "all"


class RefusesWhatTheMaskAllows(Masked):
    refuses = (2,)


class LosesItsMask(Masked):
    def step(self, action: Any) -> StepResult[Any]:
        result = super().step(action)
        return StepResult(result.observation, 0.0, False, result.truncated, {})


class FallsOffTheEnd(Walk):
    def reset(self, **arguments: Any) -> Any:
        self._data = [1.0] * 9
        return super().reset(**arguments)

    def step(self, action: Any) -> StepResult[Any]:
        reward = self._data.pop()
        return self._changed(
            super().step(action), reward=reward, terminated=False, truncated=not self._data
        )


BROKEN: list[tuple[Make, str]] = [
    (NoObservationSpace, "ERROR: observation_space is not defined"),
    (ForeignSpace, "ERROR: action_space must be a sekai space, got tuple"),
    (
        SamplesOutside,
        "ERROR: action_space.sample() is not in the space: expected a value from -1.0",
    ),
    (SpaceGrows, "ERROR: action_space changed while playing"),
    (ResetReturnsTuple, "ERROR: reset(seed=0) must return a ResetResult, returned a tuple"),
    (StepReturnsTuple, "ERROR: step() must return a StepResult, returned a tuple"),
    (ResetTakesNoSeed, "ERROR: reset(seed=0) raised TypeError"),
    (ResetTakesNoOptions, "ERROR: reset(seed=0, options={}) raised TypeError"),
    (
        WrongShape,
        "ERROR: observation at step 1 does not have the structure of observation_space: ",
    ),
    (
        WrongDtype,
        "ERROR: observation at step 1 does not have the structure of observation_space: ",
    ),
    (NaNObservation, "ERROR: observation at step 1 contains NaN"),
    (OutOfBounds, "WARNING: observation at reset(seed=0) is outside observation_space"),
    (ArrayReward, "ERROR: reward at step 1 must be a float, got an array"),
    (BoolReward, "ERROR: reward at step 1 must be a float, got bool True"),
    (NaNReward, "ERROR: reward at step 1 must be finite, got nan"),
    (IntegerFlag, "ERROR: terminated at step 1 must be a bool, got int 0"),
    (ArrayFlag, "ERROR: step() raised TypeError: truncated must be a bool"),
    (NoInfo, "ERROR: info at step 1 must be a dict, got NoneType None"),
    (RaisesLater, "ERROR: step() raised KeyError: 'book' (broken_worlds.py line"),
    (NeverSeeds, "ERROR: reset(seed=0) is not deterministic, env ignores its seed"),
    (SamplesItsSpace, "ERROR: reset(seed=0) is not deterministic, env ignores its seed"),
    (AlwaysTheSameSeed, "ERROR: env is random and ignores its seed: the seeds 0 to 4"),
    (OwnFixedGenerator, "ERROR: env is random and ignores its seed: the seeds 0 to 4"),
    (GlobalNumpy, "ERROR: env draws from the process-wide generator numpy.random; draw"),
    (GlobalPython, "ERROR: env draws from the process-wide generator random; draw"),
    (RemembersLastEpisode, "ERROR: the same seed and actions gave different results"),
    (RestartsWithoutSeed, "WARNING: reset() without a seed starts the same episode every time"),
    (
        CallsInInfo,
        "WARNING: the same seed and actions gave a different info: at step 1 info['calls']",
    ),
    (GivesItsBuffer, "ERROR: result of step 1 was changed by a later call (observation[0]"),
    (GivesItsState, "ERROR: writing to a returned observation changes the env"),
    (GivesItsInfo, "WARNING: writing to a returned info changes the env"),
    (SharesAnEmptyInfo, "WARNING: writing to a returned info changes the env"),
    (KeepsTheAction, "ERROR: writing to an action after step() changes the env (at step 2 reward"),
    (WritesToTheAction, "ERROR: step() changed its action argument: action[0] was"),
    (AnotherAsyncPath, "ERROR: async methods disagree with sync methods: at step 1 reward"),
    (AsyncRaises, "ERROR: async_reset(seed=0) raised OSError: no route to host"),
    (ForgetsItsNoise, "ERROR: env does not continue as before after load_state_dict(state):"),
    (CannotBeSaved, "WARNING: env cannot be saved: CannotBeSaved._stream (generator)"),
    (RefusesItsState, "ERROR: load_state_dict(state) raised ValueError: version 3 wanted"),
    (UsesItsStateUp, "ERROR: env does not continue as before after load_state_dict(state) a"),
    (ClosesOnce, "ERROR: close() a second time raised AttributeError"),
    (DiesAfterClose, "WARNING: step() after close() raised TypeError"),
    (MaskOfWrongLength, "ERROR: action_mask at step 1 does not fit Discrete(3): SpaceError"),
    (MaskOfNothing, "ERROR: action_mask at step 1 does not fit Discrete(3): SpaceError"),
    (MaskOfWrongForm, "ERROR: action_mask at step 1 does not fit Discrete(3): SpaceError"),
    (RefusesWhatTheMaskAllows, "ERROR: step() raised ValueError: 2 is not possible"),
    (LosesItsMask, "WARNING: info at step 1 has no action_mask, earlier infos had"),
    (FallsOffTheEnd, "WARNING: step() after the end of an episode raised IndexError"),
]
"""Each broken env, and how the line that tells about it begins."""
