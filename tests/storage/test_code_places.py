"""The places where sekai imports, unpickles or evaluates are a closed list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python" / "sekai"

CALLS = frozenset(
    {"eval", "exec", "compile", "__import__", "import_module", "attrgetter", "run_module"}
    | {"run_path", "spec_from_file_location", "find_spec", "entry_points", "save_module"}
)
"""Names that run code, or reach a module or an attribute by a text."""

OWNERS = {
    "load": {"np", "numpy", "torch", "pickle", "cloudpickle", "joblib", "marshal", "shelve"},
    "loads": {"pickle", "cloudpickle", "marshal", "dill"},
    "Unpickler": {"pickle", "cloudpickle"},
    "memmap": {"np", "numpy"},
    "compile": {"builtins"},
    "parse": {"ast"},
    "literal_eval": {"ast"},
}
"""The same as attributes, by what they are attributes of."""


def called(file: Path) -> Iterator[str]:
    """Dynamic imports, unpickling and evaluation that a file calls."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    modules = set(_modules(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id in CALLS:
            yield function.id
        elif isinstance(function, ast.Attribute):
            owner = getattr(function.value, "id", None)
            if owner in OWNERS.get(function.attr, ()):
                yield f"{owner}.{function.attr}"
            elif function.attr in CALLS - {"compile"}:
                yield function.attr
        if _looks_up_in_a_module(function, node, modules):
            yield "getattr(module)"


def _modules(tree: ast.AST) -> Iterator[str]:
    """The names of modules in a file, as far as its imports tell."""
    yield from ("module", "import_module", "importlib")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module in ("sekai", "importlib"):
            yield from (alias.asname or alias.name for alias in node.names)


def _looks_up_in_a_module(function: ast.expr, node: ast.Call, modules: set[str]) -> bool:
    if not isinstance(function, ast.Name) or function.id != "getattr" or len(node.args) < 2:
        return False
    names = {part.id for part in ast.walk(node.args[0]) if isinstance(part, ast.Name)}
    return not isinstance(node.args[1], ast.Constant) and bool(names & modules)


PLACES: dict[str, tuple[str, str]] = {
    "__init__.py": ("getattr(module) import_module", "names of its own table"),
    "backend/ops.py": ("find_spec", "a constant"),
    "compat/__init__.py": ("getattr(module) import_module", "names of its own table"),
    "compose/data_queue.py": ("pickle.loads", "a queue of the user's own processes, with a key"),
    "compose/dataset_loader.py": ("pickle.loads", "from processes that it started"),
    "compose/orders/run_orders.py": ("cloudpickle.loads", "in processes that it started"),
    "config/convert.py": ("ast.parse", "source of sekai; parsed, never run"),
    "data/bundled.py": ("find_spec import_module", "names of its own table"),
    "data/features/feature.py": (
        "ast.literal_eval ast.parse entry_points",
        "plug-ins that the user installed; parsed, never run",
    ),
    "data/qlib/expression.py": ("ast.parse", "parsed, never run"),
    "data/windows/npy_file.py": ("ast.literal_eval", "the header of an array; literals alone"),
    "envs/__init__.py": ("getattr(module) import_module", "names of its own table"),
    "evaluation/baselines/__init__.py": ("getattr(module) import_module", "names of its own table"),
    "evaluation/tasks/__init__.py": ("getattr(module) import_module", "names of its own table"),
    "experiment/reading.py": ("getattr(module)", "an algorithm out of a literal list"),
    "experiment/references.py": (
        "attrgetter import_module",
        "modules that an experiment file of the user or an option names",
    ),
    "live/__init__.py": ("getattr(module) import_module", "names of its own table"),
    "policy/load.py": ("import_module", "a constant"),
    "registry/entry_point.py": ("attrgetter import_module", "paths that code registers"),
    "registry/namespace.py": ("entry_points", "plug-ins that the user installed"),
    "registry/registry.py": ("getattr(module)", "names of wrappers that it writes itself"),
    "registry/spec_json.py": ("getattr(module)", "names that sekai.wrappers exports"),
    "storage/kinds.py": ("getattr(module) import_module", "names of its own table"),
    "storage/optional.py": ("import_module", "constants of its callers"),
    "training/callbacks/reporting.py": ("import_module", "constants"),
    "vector/messages.py": ("pickle.loads", "between processes of one vector env"),
    "vector/proc.py": ("pickle.loads", "from workers that it started"),
    "vector/worker.py": ("pickle.loads", "from the process that started it"),
    "vector/worker_pool.py": ("pickle.loads", "from workers that it started"),
}
"""By file, what is called there, and what it is called with: never a text of a data file."""


def test_the_places_that_run_code_by_a_text_are_a_closed_list() -> None:
    found = {
        file.relative_to(PACKAGE).as_posix(): " ".join(sorted(set(called(file))))
        for file in PACKAGE.rglob("*.py")
    }

    expected = {place: calls for place, (calls, _) in PLACES.items()}
    assert {place: calls for place, calls in found.items() if calls} == expected


def test_arrays_are_never_read_with_pickles() -> None:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                is_off = isinstance(node.value, ast.Constant) and node.value.value is False
                assert is_off, f"{file}:{node.value.lineno}"
