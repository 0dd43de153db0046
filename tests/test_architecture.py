"""The architecture is a test: who may import whom."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "sekai"
FLOW = [
    "data",
    "market",
    "envs",
    "vector",
    "compose",
    "policy",
    "training",
    "evaluation",
    "experiment",
    "live",
    "cli",
]
FRAMEWORK = [
    "backend",
    "config",
    "core",
    "error.py",
    "registry",
    "rendering",
    "spaces",
    "stats",
    "storage",
    "utils",
    "wrappers",
]
COMPAT_MAY_USE = {"data", "market", "envs", "vector", "compose"}
"""Stages that bridges translate; the later ones know nothing of other frameworks."""
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


def files_of(name: str) -> list[Path]:
    """Python files of a package or module of sekai."""
    path = PACKAGE / name
    return [path] if path.suffix else sorted(path.rglob("*.py"))


def docstrings_of(file: Path) -> Iterator[tuple[str, str]]:
    """Qualified name and docstring of a module, its classes and its functions."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            name = getattr(node, "name", "module")
            yield f"{file.name}:{getattr(node, 'lineno', 1)} {name}", ast.get_docstring(node) or ""


@pytest.mark.parametrize("stage", FLOW)
def test_a_stage_never_imports_a_later_one(stage: str) -> None:
    later = set(FLOW[FLOW.index(stage) + 1 :])
    for file in (PACKAGE / stage).rglob("*.py"):
        reached = stages_used_by(file) & later
        assert not reached, f"{file} reaches forward to {reached}"


@pytest.mark.parametrize("module", FRAMEWORK)
def test_the_framework_imports_no_stage(module: str) -> None:
    for file in files_of(module):
        reached = stages_used_by(file) & set(FLOW)
        assert not reached, f"{file} imports the stage {reached}"


def test_bridges_use_no_stage_after_composition() -> None:
    for file in files_of("compat"):
        reached = stages_used_by(file) & set(FLOW) - COMPAT_MAY_USE
        assert not reached, f"{file} imports the stage {reached}"


def test_entry_points_written_as_text_exist() -> None:
    for file in PACKAGE.rglob("*.py"):
        for path in re.findall(r'"(sekai(?:\.\w+)+):(\w+)"', file.read_text(encoding="utf-8")):
            module, name = path
            source = PACKAGE.parent / module.replace(".", "/")
            target = source.with_suffix(".py")
            target = target if target.exists() else source / "__init__.py"
            text = target.read_text(encoding="utf-8")
            assert re.search(rf"\b{name}\b", text), f"{file} names {module}:{name}"


def test_registered_entry_points_do_not_point_to_a_later_stage() -> None:
    allowed = {"envs": {"vector", "compose", "rendering"}}
    for stage in FLOW:
        later = set(FLOW[FLOW.index(stage) + 1 :]) - allowed.get(stage, set())
        for file in files_of(stage):
            text = file.read_text(encoding="utf-8")
            reached = {path[0] for path in re.findall(r'"sekai\.(\w+)((?:\.\w+)*):\w+"', text)}
            assert not reached & later, f"{file} registers {reached & later}"


def test_storage_imports_spaces_and_errors_alone_of_the_framework() -> None:
    for file in (PACKAGE / "storage").rglob("*.py"):
        reached = stages_used_by(file) - {"storage", "spaces", "error"}
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


ONCE = {
    r"\bos\.replace\(|\bos\.rename\(": {"storage/files.py"},
    r"\bos\.fsync\(|\bos\.fdatasync\(": {"storage/files.py"},
    r"\bfcntl\b|\bmsvcrt\b": {"storage/lock.py"},
    r"\bdifflib\b": {"storage/names.py"},
    r"\bEventFileWriter\b": {"storage/event_file.py"},
    r"\btomllib\b|\btomli\b": {"config/toml_file.py"},
}
"""Mechanisms that exist once: what they are recognised by, and their module."""


@pytest.mark.parametrize("pattern", ONCE)
def test_a_mechanism_stands_in_one_module(pattern: str) -> None:
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if re.search(pattern, file.read_text(encoding="utf-8"))
    }
    assert found == ONCE[pattern]


def test_class_names_are_unique() -> None:
    owners: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                owners.setdefault(node.name, set()).add(file.relative_to(PACKAGE).as_posix())

    assert {name: files for name, files in owners.items() if len(files) > 1} == {}


VAGUE_START = re.compile(
    r"(What|Whatever|Who|Whoever|Whose|How|Whether|Lets?|Where|When|Which|Why|"
    r"Everything|Everyone|Everybody|Something|Someone|Somebody|Anything|Nothing)\b"
)
"""First words of sentences that do not contain the term a reader would search for."""


def test_docstrings_begin_with_a_term() -> None:
    folders = [PACKAGE, ROOT / "benchmarks", ROOT / "examples"]
    vague = [
        name
        for folder in folders
        for file in folder.rglob("*.py")
        for name, docstring in docstrings_of(file)
        if VAGUE_START.match(docstring)
    ]

    assert vague == [], f"{len(vague)} docstrings do not begin with a noun phrase or imperative"


def test_rust_doc_comments_begin_with_a_term() -> None:
    vague = []
    for file in (ROOT / "crates").rglob("*.rs"):
        previous = ""
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            comment = re.match(r"\s*(//[/!]) ?(.*)", line)
            is_first = comment is not None and not previous.lstrip().startswith(comment[1])
            if is_first and comment is not None and VAGUE_START.match(comment[2]):
                vague.append(f"{file.relative_to(ROOT).as_posix()}:{number}")
            previous = line

    assert vague == [], f"{len(vague)} doc comments do not begin with a noun phrase or imperative"


def test_no_file_is_longer_than_a_topic() -> None:
    long = {
        file.relative_to(PACKAGE).as_posix(): count
        for file in PACKAGE.rglob("*.py")
        if (count := len(file.read_text(encoding="utf-8").splitlines())) > 600
    }

    assert long == {}


def test_errors_say_expected_and_got() -> None:
    private_wording = re.compile(r"\b(was|were) wanted\b|, (found|was) \{")
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "crates").rglob("*.rs")]

    found = [
        f"{file.relative_to(ROOT).as_posix()}:{number}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if private_wording.search(line)
    ]

    assert found == [], "errors state the problem, then 'expected ..., got ...'"
