"""Optional packages: the extra that an error names installs the package."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from sekai.config.toml_file import load_toml
from sekai.data.writing import as_frame
from sekai.error import MissingExtraError
from sekai.storage.optional import DISTRIBUTIONS

ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = load_toml((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]


def required() -> list[tuple[str, str, str]]:
    """File, package and extra of each optional import with literal arguments."""
    found = []
    for file in sorted((ROOT / "python" / "sekai").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and node.func.id == "optional_import":  # type: ignore[attr-defined]
                arguments = node.args[:2]  # type: ignore[attr-defined]
                if len(arguments) == 2 and all(
                    isinstance(each, ast.Constant) for each in arguments
                ):
                    module, extra = (each.value for each in arguments)
                    package = module.partition(".")[0]
                    if package == "sekai":
                        # Our own part that needs the extra, which its imports name.
                        continue
                    name = DISTRIBUTIONS.get(package, package.replace("_", "-"))
                    found.append((file.name, name, extra))
    return found


def test_the_extra_of_every_optional_import_has_the_package() -> None:
    imports = required()
    assert len(imports) > 30
    for file, package, extra in imports:
        for name in filter(None, extra.split(",")):
            packages = [re.split(r"[\[<>=; ]", each)[0] for each in EXTRAS[name]]
            if any(each.removesuffix("-skinny") == package for each in packages):
                break
        else:
            assert not extra, f"{file}: the extra {extra!r} does not install {package!r}"


def test_a_frame_without_pandas_names_pandas_and_the_other_backends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(
        MissingExtraError, match=r"'pandas'.*: pip install pandas, or pass backend="
    ):
        as_frame({"a": [1.0]}, "pandas", "describe")
