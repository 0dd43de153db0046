"""Installation and import of the package."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sekai
from sekai import error

ROOT = Path(__file__).parent.parent

NAMES = {
    "environments": ["Env", "MultiAgentEnv", "ResetResult", "StepResult"],
    "experiments": ["run_experiment", "run_sweep"],
    "spaces": ["Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Space", "Tuple"],
    "own wrappers": ["ActionWrapper", "ObservationWrapper", "RewardWrapper", "Wrapper"],
    "wrappers": [
        "AutoReset",
        "ClipAction",
        "FlattenObservation",
        "FrameStackObservation",
        "NormalizeObservation",
        "NormalizeReward",
        "OrderEnforcing",
        "RecordEpisodeStatistics",
        "RescaleAction",
        "TimeLimit",
        "TransformObservation",
        "TransformReward",
    ],
    "vector envs": ["AsyncVecEnv", "ProcVecEnv", "SyncVecEnv", "VecEnv", "make_vec"],
    "registry": ["EnvSpec", "all_specs", "make", "register", "register_namespace", "spec"],
    "checks and errors": ["ResetRequired", "check_env"],
}
"""The exact public names of the top level, beside its modules."""

FRAMEWORK = ["backend", "compat", "core", "error", "registry", "rendering", "spaces", "stats"]
FRAMEWORK += ["utils", "vector", "wrappers"]
STAGES = ["cli", "compose", "config", "data", "envs", "evaluation", "experiment", "live"]
STAGES += ["market", "policy", "training"]

PATHS = [
    "sekai.core.multi_agent:MultiAgentEnv",
    "sekai.core.result:MAStepResult",
    "sekai.core.result:MAResetResult",
    "sekai.core.result:VecStepResult",
    "sekai.core.result:VecResetResult",
    "sekai.core.env:Env",
    "sekai.core.wrapper:Wrapper",
    "sekai.spaces:flatdim",
    "sekai.spaces:flatten",
    "sekai.spaces:unflatten",
    "sekai.spaces:flatten_space",
    "sekai.spaces:Space",
    "sekai.spaces:Simplex",
    "sekai.spaces:MaskedBox",
    "sekai.spaces.utils:flatten",
    "sekai.vector:VecResetResult",
    "sekai.vector:VecStepResult",
    "sekai.vector:stack_infos",
    "sekai.vector:VecObservationWrapper",
    "sekai.vector:ProcVecEnv",
    "sekai.stats.tracker:StatsTracker",
    "sekai.stats.tracker:EpisodeStats",
    "sekai.stats.tracker:InMemoryTracker",
    "sekai.stats.tracker:LoggingTracker",
    "sekai.rendering:Renderer",
    "sekai.rendering:RecordFrames",
    "sekai.rendering:save_gif",
    "sekai.rendering:save_video",
    "sekai.rendering:MatplotlibRenderer",
    "sekai.market:OrderBook",
    "sekai.utils.checker:check_env",
    "sekai.utils.checker:check_causal",
    "sekai.backend:BackendOps",
    "sekai.wrappers:AutoReset",
    "sekai.wrappers:FlattenObservation",
    "sekai.wrappers:FrameStackObservation",
    "sekai.wrappers:ClipAction",
    "sekai.wrappers:RescaleAction",
    "sekai.wrappers:TransformObservation",
    "sekai.wrappers:TransformReward",
    "sekai.wrappers:OrderEnforcing",
    "sekai.wrappers:DelayObservation",
    "sekai.wrappers:DelayAction",
    "sekai.wrappers:ActionMask",
    "sekai.compat:to_gymnasium",
    "sekai.compat:from_gymnasium",
    "sekai.compat:to_pettingzoo",
    "sekai.compat:from_pettingzoo",
    "sekai.compat:to_stable_baselines3",
]


def fresh(script: str, **environment: str) -> str:
    """Output of a new interpreter."""
    command = [sys.executable, "-c", script]
    # Compiled modules are kept, as they are wherever a package is installed in earnest.
    kept = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(
        command, env=kept | environment, check=True, capture_output=True, text=True
    )
    return run.stdout.strip()


@pytest.mark.timeout(240)  # training imports torch
@pytest.mark.parametrize("name", [*FRAMEWORK, *STAGES])
def test_a_module_is_an_attribute_of_the_package(name: str) -> None:
    asked = fresh(f"import sekai; print(sekai.{name}.__name__)")

    assert asked == f"sekai.{name}"


@pytest.mark.timeout(240)
def test_names_of_modules_are_reached_through_the_package() -> None:
    script = """
import sekai
print(sekai.training.PPO.__name__, sekai.utils.checker.check_env is sekai.check_env)
print(sekai.vector.VecStepResult is sekai.core.result.VecStepResult)
print(sekai.vector.VecResetResult is sekai.core.result.VecResetResult)
"""
    assert fresh(script).split() == ["PPO", "True", "True", "True"]


@pytest.mark.timeout(240)
def test_the_top_level_holds_these_names_and_no_others() -> None:
    public = {name for name in sekai.__all__ if not name.startswith("_")}

    assert public == {*FRAMEWORK, *STAGES}.union(*NAMES.values())
    assert len(sekai.__all__) == len(set(sekai.__all__))
    assert sekai.__all__ == dir(sekai)
    assert all(hasattr(sekai, name) for name in sekai.__all__)


@pytest.mark.parametrize("name", [name for name in error.__all__ if name != "ResetRequired"])
def test_errors_live_in_their_module(name: str) -> None:
    assert not hasattr(sekai, name)


@pytest.mark.parametrize("path", PATHS)
def test_a_name_is_found_at_its_documented_path(path: str) -> None:
    module, name = path.split(":")

    assert hasattr(importlib.import_module(module), name)


def test_every_error_has_one_base() -> None:
    assert all(issubclass(getattr(error, name), error.SekaiError) for name in error.__all__)


def test_an_unknown_top_level_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Bx'"):
        _ = sekai.Bx


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert sekai.__version__ == version("sekai")


def test_importing_brings_nothing_beyond_numpy_cloudpickle_and_the_core() -> None:
    script = """
import sys
import numpy
before = set(sys.modules)
import sekai, json
brought = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(brought - set(sys.stdlib_module_names))))
"""
    brought = json.loads(fresh(script))

    assert set(brought) <= {"sekai", "quant_gym_rs", "numpy", "cloudpickle"}


def test_importing_adds_less_than_numpy_itself_takes(tmp_path: Path) -> None:
    script = """
import time
begin = time.process_time()
import {}
print((time.process_time() - begin) * 1000)
"""
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path)}

    def milliseconds(module: str) -> float:
        return float(fresh(script.format(module), **compiled))

    # In turns, and the least of several: a busy machine can only make either slower. NumPy takes
    # 80 ms on a quiet machine, so that this keeps `import sekai` under 150 ms there.
    times = [(milliseconds("sekai"), milliseconds("numpy")) for _ in range(9)][1:]
    sekai_time, numpy_time = (min(column) for column in zip(*times, strict=True))
    assert sekai_time < 1.85 * numpy_time


def test_the_stubs_tell_the_truth_about_the_native_part() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "quant_gym_rs", "--concise"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stdout + run.stderr


def test_both_packages_are_marked_as_typed() -> None:
    for name in ("sekai", "quant_gym_rs"):
        (folder,) = importlib.import_module(name).__path__
        assert (Path(folder) / "py.typed").exists()
