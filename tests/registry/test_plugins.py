"""Installed packages announce namespaces through entry points."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sekai.error import NamespaceError
from sekai.registry import all_specs, make, namespaces, register_namespace
from tests.worlds import Market, RandomWalk


def install(folder: Path, name: str, entry_points: str, **modules: str) -> None:
    """Files that an installer writes to site-packages for a package."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[sekai.envs]\n{entry_points}\n")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_plugin_names_a_function_that_registers(site: Path) -> None:
    source = (
        "from sekai.registry import register\n"
        "def load(): register('plug/Walk-v0', 'tests.worlds:RandomWalk')\n"
    )
    install(site, "plugin-one", "plug = plugin_one:load", plugin_one=source)

    assert "plug" in namespaces()
    assert "plugin_one" not in sys.modules
    assert all_specs() == []
    assert type(make("plug/Walk-v0").unwrapped) is RandomWalk
    assert type(make("plug/Walk").unwrapped) is RandomWalk


def test_a_plugin_names_a_module_that_registers(site: Path) -> None:
    source = "from sekai.registry import register; register('mod/Walk-v0', 'tests.worlds:Market')\n"
    install(site, "plugin-two", "mod = plugin_two", plugin_two=source)

    assert type(make("mod/Walk-v0").unwrapped) is Market


def test_the_module_of_a_plugin_may_register_the_namespace_itself(site: Path) -> None:
    source = (
        "from sekai.registry import register, register_namespace\n"
        "def load(): register('self/Walk-v0', 'tests.worlds:Market')\n"
        "register_namespace('self', load)\n"
    )
    install(site, "plugin-three", "self = plugin_three", plugin_three=source)

    assert type(make("self/Walk-v0").unwrapped) is Market


def test_two_packages_may_share_a_namespace(site: Path) -> None:
    line = "from sekai.registry import register; register('both/{}-v0', 'tests.worlds:Market')\n"
    install(site, "plugin-four", "both = plugin_four", plugin_four=line.format("Four"))
    install(site, "plugin-five", "both = plugin_five", plugin_five=line.format("Five"))

    assert [type(make(f"both/{name}-v0").unwrapped) for name in ("Four", "Five")] == [Market] * 2


def test_a_namespace_of_the_program_comes_before_a_plugin(site: Path) -> None:
    install(site, "plugin-six", "mine = plugin_six", plugin_six="raise RuntimeError('not me')\n")
    from sekai.registry import register

    register_namespace("mine", lambda: register("mine/Walk-v0", RandomWalk))

    assert type(make("mine/Walk-v0").unwrapped) is RandomWalk


def test_a_plugin_that_fails_says_which_namespace_it_is(site: Path) -> None:
    install(
        site, "plugin-seven", "bad = plugin_seven", plugin_seven="raise OSError('no licence')\n"
    )

    with pytest.raises(NamespaceError, match="'bad' failed .OSError: no licence"):
        make("bad/Walk-v0")


def test_a_plugin_with_a_bad_name_hides_no_other(site: Path) -> None:
    line = "from sekai.registry import register; register('good/Walk-v0', 'tests.worlds:Market')\n"
    install(site, "plugin-eight", "a b = plugin_eight\ngood = plugin_nine", plugin_nine=line)

    with pytest.warns(RuntimeWarning, match="plugin_eight.*ignored"):
        assert "good" in namespaces()
    assert type(make("good/Walk-v0").unwrapped) is Market
