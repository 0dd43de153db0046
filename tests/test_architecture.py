"""The architecture is a test: who may import whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "python" / "sekai"
FLOW = ["data", "market", "envs", "vector", "compose", "training", "evaluation", "live", "cli"]
FRAMEWORK = ["core", "spaces", "wrappers", "registry", "stats", "rendering", "backend", "storage"]
TORCH_ALLOWED = {"training", "backend/torch_ops.py"}


def imports_of(file: Path) -> Iterator[str]:
    """The modules that a file imports when it runs, wherever in it the import stands."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def stages_used_by(file: Path) -> set[str]:
    parts = (module.split(".") for module in imports_of(file))
    return {part[1] for part in parts if part[0] == "sekai" and len(part) > 1}


@pytest.mark.parametrize("stage", FLOW)
def test_a_stage_never_imports_a_later_one(stage: str) -> None:
    later = set(FLOW[FLOW.index(stage) + 1 :])
    for file in (PACKAGE / stage).rglob("*.py"):
        reached = stages_used_by(file) & later
        assert not reached, f"{file} reaches forward to {reached}"


@pytest.mark.parametrize("module", FRAMEWORK)
def test_the_framework_imports_no_stage(module: str) -> None:
    for file in (PACKAGE / module).rglob("*.py"):
        reached = stages_used_by(file) & set(FLOW)
        assert not reached, f"{file} imports the stage {reached}"


def test_storage_imports_spaces_alone_of_the_framework() -> None:
    for file in (PACKAGE / "storage").rglob("*.py"):
        reached = stages_used_by(file) - {"storage", "spaces"}
        assert not reached, f"{file} imports {reached}"


def test_only_training_and_the_torch_backend_import_torch() -> None:
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE).as_posix()
        if any(place.startswith(allowed) for allowed in TORCH_ALLOWED):
            continue
        roots = {module.partition(".")[0] for module in imports_of(file)}
        assert not roots & {"torch", "torchrl", "tensordict"}, f"{place} imports torch"


def test_nothing_that_is_loaded_from_a_path_is_unpickled() -> None:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr == "load":
                owner = getattr(node.value, "id", "")
                assert owner not in {"pickle", "cloudpickle", "joblib"}, f"{file}:{node.lineno}"
