"""Namespaces are loaded when first needed, once, whatever the number of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sekai.error import (
    DuplicateEnvError,
    MissingExtraError,
    NamespaceError,
    UnknownEnvError,
)
from sekai.registry import (
    EnvSpec,
    all_specs,
    isolated,
    make,
    namespaces,
    register,
    register_namespace,
    spec,
)
from tests.worlds import Market, RandomWalk


class CountingLoader:
    """Registers `<namespace>/Walk-v0`, slowly, and counts how often it was asked to."""

    def __init__(self, namespace: str = "qc", failures: int = 0) -> None:
        self.namespace = namespace
        self.failures = failures
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        time.sleep(0.02)
        register(f"{self.namespace}/Walk-v0", RandomWalk)
        if self.calls <= self.failures:
            raise OSError("the disk is away")
        register(f"{self.namespace}/Market-v0", Market)


def in_threads(count: int, task: Callable[[], object]) -> list[object]:
    """Results of `task` in `count` threads that start together."""
    barrier = threading.Barrier(count)

    def begin() -> object:
        barrier.wait()
        return task()

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(begin) for _ in range(count)]
        return [future.result(timeout=20) for future in futures]


def test_the_document_loads_a_plugin_by_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "qiancapital_envs.py").write_text(
        "import sekai.registry\n"
        "sekai.registry.register('qc/CryptoOrderBook-v2', 'tests.worlds:Market')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    register_namespace("qc", lambda: __import__("qiancapital_envs"))

    assert all_specs() == []
    assert type(make("qc/CryptoOrderBook-v2").unwrapped) is Market
    assert [each.id for each in all_specs()] == ["qc/CryptoOrderBook-v2"]


def test_a_namespace_is_loaded_once() -> None:
    loader = CountingLoader()
    register_namespace("qc", loader)

    make("qc/Walk-v0")
    make("qc/Market")
    with pytest.raises(UnknownEnvError):
        make("qc/Nothing-v0")

    assert loader.calls == 1


def test_listing_loads_nothing() -> None:
    loader = CountingLoader()
    register_namespace("qc", loader)

    assert all_specs() == []
    assert "qc" in namespaces()
    assert loader.calls == 0


def test_other_namespaces_are_left_alone() -> None:
    loader = CountingLoader()
    register_namespace("qc", loader)
    register("Walk-v0", RandomWalk)

    make("Walk-v0")

    assert loader.calls == 0


def test_eight_threads_load_once_and_all_get_their_env() -> None:
    loader = CountingLoader()
    register_namespace("qc", loader)

    made = in_threads(8, lambda: type(make("qc/Market-v0").unwrapped))

    assert made == [Market] * 8
    assert loader.calls == 1


def test_of_many_threads_that_register_an_id_one_succeeds() -> None:
    def attempt() -> bool:
        try:
            register("Walk-v0", RandomWalk)
        except DuplicateEnvError:
            return False
        return True

    assert sum(map(bool, in_threads(8, attempt))) == 1


def test_a_loader_may_register_and_make_envs_of_its_own_namespace() -> None:
    made = []

    def loader() -> None:
        register("qc/Walk-v0", RandomWalk)
        made.append(make("qc/Walk-v0"))

    register_namespace("qc", loader)

    make("qc/Walk-v0")

    assert len(made) == 1


def test_loaders_that_need_each_other_do_not_wait_for_ever() -> None:
    def needs(own: str, other: str) -> Callable[[], None]:
        def loader() -> None:
            register(f"{own}/Walk-v0", RandomWalk)
            time.sleep(0.05)
            make(f"{other}/Walk-v0")

        return loader

    register_namespace("a", needs("a", "b"))
    register_namespace("b", needs("b", "a"))

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(make, f"{name}/Walk-v0") for name in "ab"]
        assert [type(future.result(timeout=20).unwrapped) for future in futures] == [RandomWalk] * 2


def test_a_failing_loader_reports_its_own_error_and_can_be_retried() -> None:
    loader = CountingLoader(failures=1)
    register_namespace("qc", loader)

    with pytest.raises(NamespaceError, match="'qc' failed .OSError: the disk is away") as caught:
        make("qc/Market-v0")
    assert isinstance(caught.value.__cause__, OSError)

    # What the first attempt had registered is no duplicate now.
    assert type(make("qc/Market-v0").unwrapped) is Market
    assert type(make("qc/Walk-v0").unwrapped) is RandomWalk
    assert loader.calls == 2


def test_threads_behind_a_failing_loader_try_for_themselves() -> None:
    loader = CountingLoader(failures=2)
    register_namespace("qc", loader)

    def attempt() -> str:
        try:
            return make("qc/Market-v0").unwrapped.__class__.__name__
        except NamespaceError as error:
            return type(error.__cause__).__name__

    results = in_threads(4, attempt)

    assert sorted(map(str, results)) == ["Market", "Market", "OSError", "OSError"]
    assert loader.calls == 3


def test_a_module_imported_by_a_failed_attempt_keeps_its_envs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "halfway"
    package.mkdir()
    (package / "__init__.py").write_text("from halfway import first, second\n")
    line = "from sekai.registry import register; register('half/{}-v0', 'tests.worlds:Market')\n"
    (package / "first.py").write_text(line.format("First"))
    (package / "second.py").write_text("import os; os.environ['HALFWAY']\n" + line.format("Second"))
    monkeypatch.syspath_prepend(tmp_path)
    register_namespace("half", lambda: __import__("halfway"))

    with pytest.raises(NamespaceError, match="HALFWAY"):
        make("half/First-v0")
    monkeypatch.setenv("HALFWAY", "yes")

    assert type(make("half/First-v0").unwrapped) is Market
    assert type(make("half/Second-v0").unwrapped) is Market


def test_a_loader_that_registers_an_id_twice_is_refused() -> None:
    def loader() -> None:
        register("qc/Walk-v0", RandomWalk)
        register("qc/Walk-v0", Market)

    register_namespace("qc", loader)

    for _ in range(2):
        with pytest.raises(NamespaceError, match="DuplicateEnvError"):
            make("qc/Walk-v0")


def test_a_loader_that_registers_nothing_is_told_apart_from_an_unknown_namespace() -> None:
    register_namespace("empty", lambda: None)

    with pytest.raises(UnknownEnvError, match="'empty' registered no envs"):
        make("empty/Walk-v0")
    with pytest.raises(
        UnknownEnvError, match=r"unknown namespace 'empti'; expected one of: .*empty"
    ):
        make("empti/Walk-v0")


def test_a_namespace_registered_twice_is_refused() -> None:
    register_namespace("qc", lambda: None)

    with pytest.raises(DuplicateEnvError, match="namespace 'qc' is already registered"):
        register_namespace("qc", lambda: None)


def test_force_replaces_a_namespace() -> None:
    register_namespace("qc", lambda: None)
    loader = CountingLoader()

    register_namespace("qc", loader, force=True)

    make("qc/Walk-v0")
    assert loader.calls == 1


def test_a_resolver_finds_what_is_not_registered() -> None:
    asked = []

    def resolver(id: str) -> EnvSpec | None:
        asked.append(id)
        return EnvSpec(id, RandomWalk) if "Walk" in id else None

    register_namespace("gymnasium", None, resolver)
    register("gymnasium/Market-v0", Market)

    assert type(make("gymnasium/Market-v0").unwrapped) is Market
    assert type(make("gymnasium/Walk-v1").unwrapped) is RandomWalk
    assert spec("gymnasium/ALE/Walk-v5").id == "gymnasium/ALE/Walk-v5"
    with pytest.raises(UnknownEnvError, match="gymnasium/Pole-v0"):
        make("gymnasium/Pole-v0")
    assert asked == ["gymnasium/Walk-v1", "gymnasium/ALE/Walk-v5", "gymnasium/Pole-v0"]


def test_a_resolver_is_asked_after_its_loader_has_run() -> None:
    known: list[str] = []
    register_namespace(
        "late", lambda: known.append("Walk"), lambda id: EnvSpec(id, RandomWalk) if known else None
    )

    assert spec("late/Walk-v0").id == "late/Walk-v0"


def test_a_failing_resolver_keeps_its_cause_and_an_error_of_sekai_passes() -> None:
    def missing(id: str) -> EnvSpec | None:
        raise MissingExtraError.of("gymnasium", "gymnasium", id)

    register_namespace("broken", None, lambda id: EnvSpec(id, 1 / 0))  # type: ignore[arg-type]
    register_namespace("odd", None, lambda id: "spec")  # type: ignore[arg-type, return-value]
    register_namespace("missing", None, missing)

    with pytest.raises(NamespaceError, match="ZeroDivisionError") as caught:
        make("broken/Walk-v0")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(NamespaceError, match="must return an EnvSpec or None"):
        make("odd/Walk-v0")
    with pytest.raises(MissingExtraError, match="gymnasium"):
        make("missing/Walk-v0")


def test_isolation_undoes_registering_and_loading() -> None:
    loader = CountingLoader()
    register_namespace("qc", loader)
    register("Walk-v0", RandomWalk)

    with isolated():
        make("qc/Walk-v0")
        register("Market-v0", Market)
    with isolated(empty=True):
        assert all_specs() == []

    assert [each.id for each in all_specs()] == ["Walk-v0"]
    make("qc/Walk-v0")
    assert loader.calls == 2


def test_an_id_without_its_namespace_is_told_how_it_is_written() -> None:
    register_namespace("qc", CountingLoader())

    with pytest.raises(UnknownEnvError, match="need their namespace, as in 'qc/Walking-v3'"):
        make("Walking-v3")
