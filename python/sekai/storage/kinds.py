"""Registry of kinds: the classes and functions that a data file may name.

A file names a kind, never an import path. The built-in kinds are the table below, which only this
source file can extend; a program adds its own with `register_kind` before it reads a file.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

Kind = TypeVar("Kind", bound=Callable[..., Any])

BUILT_IN: dict[str, str] = {
    "AccountConfig": "sekai.market.market:AccountConfig",
    "AgentConfig": "sekai.envs.portfolio.config:AgentConfig",
    "AlmgrenChriss": "sekai.market.almgren_chriss:AlmgrenChriss",
    "BasketExecutionConfig": "sekai.compose.orders.basket_execution:BasketExecutionConfig",
    "CashAccount": "sekai.market.accounts:CashAccount",
    "Constraints": "sekai.market.constraints:Constraints",
    "Costs": "sekai.market.costs:Costs",
    "DayTicks": "sekai.data.intraday:DayTicks",
    "ExchangeConfig": "sekai.compose.orders.qlib_config:ExchangeConfig",
    "Execution": "sekai.market.execution:Execution",
    "ExecutorConfig": "sekai.compose.orders.qlib_config:ExecutorConfig",
    "FeaturePanel": "sekai.data.features.pipeline:FeaturePanel",
    "Frequency": "sekai.data.calendar:Frequency",
    "FundamentalConfig": "sekai.market.market:FundamentalConfig",
    "MarginAccount": "sekai.market.accounts:MarginAccount",
    "MarketConfig": "sekai.market.market:MarketConfig",
    "MarketMakingConfig": "sekai.envs.market_making:MarketMakingConfig",
    "MemberConfig": "sekai.envs.portfolio.config:MemberConfig",
    "MultiPortfolioConfig": "sekai.envs.portfolio.config:MultiPortfolioConfig",
    "NewsConfig": "sekai.market.market:NewsConfig",
    "OptimalExecutionConfig": "sekai.envs.optimal_execution:OptimalExecutionConfig",
    "Order": "sekai.compose.orders.order:Order",
    "OrderCosts": "sekai.compose.orders.simulators:OrderCosts",
    "OrderDir": "sekai.compose.orders.order:OrderDir",
    "OrderExecutionConfig": "sekai.compose.orders.config:OrderExecutionConfig",
    "Pipeline": "sekai.data.features.pipeline:Pipeline",
    "PopulationConfig": "sekai.market.market:PopulationConfig",
    "PortfolioConfig": "sekai.envs.portfolio.config:PortfolioConfig",
    "SimulatedMinutes": "sekai.compose.orders.data:SimulatedMinutes",
    "StateOwner": "sekai.core.portable_state:Reference",
    "StatePlaceholder": "sekai.core.portable_state:Placeholder",
    "SymbolConfig": "sekai.market.market:SymbolConfig",
    "TradingConfig": "sekai.envs.trading:TradingConfig",
}
"""Built-in kinds and the import paths of their classes, imported when a file names one."""

_NAMES = {path: name for name, path in BUILT_IN.items()}

NAME = re.compile(r"[^\W\d][\w.\-]{0,99}")

_registered: dict[str, Any] = {}


@overload
def register_kind(name: str, kind: Kind) -> Kind: ...


@overload
def register_kind(name: str) -> Callable[[Kind], Kind]: ...


def register_kind(name: str, kind: Any = None) -> Any:
    """Register a class or a function under a name in data files; usable as a decorator.

    Specs, model files and snapshots then hold instances of the class, the class itself, or the
    function, under `name`. A file is read only where the same name is registered.

    Args:
        name: name in files: letters, digits, `_`, `.` and `-`.
        kind: a dataclass, an enum, a class with `to_jsonable()` and a class method
            `from_jsonable()`, a wrapper class, or a function; without it a decorator is returned.

    Raises:
        ValueError: the name is malformed, or registered for another kind.
        TypeError: `kind` is neither a class nor a function.
    """
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise ValueError(
            f"malformed kind name {name!r:.80}; expected letters, digits, '_', '.' and '-', "
            f"such as 'my_package.Costs'"
        )
    if kind is None:
        return lambda decorated: register_kind(name, decorated)
    if not callable(kind):
        raise TypeError(f"kind {name!r} must be a class or a function, got {kind!r:.80}")
    known = _registered.get(name)
    if name in BUILT_IN or (known is not None and not _is_reloaded(known, kind)):
        owner = BUILT_IN.get(name) or known
        raise ValueError(f"kind {name!r} is already registered as {owner!r}; choose another name")
    _registered[name] = kind
    return kind


def kind_named(name: Any) -> Any:
    """Class or function registered under `name`.

    Raises:
        ValueError: the name is unknown.
    """
    if isinstance(name, str):
        if name in _registered:
            return _registered[name]
        if name in BUILT_IN:
            return _imported(BUILT_IN[name])
    raise ValueError(
        f"unknown kind {name!r:.80}; expected a built-in kind of sekai, or one that the program "
        f"registers with sekai.registry.register_kind before it reads the file"
    )


def name_of_kind(kind: Any) -> str | None:
    """Name under which a class or function is registered; None if it is not."""
    for name, known in _registered.items():
        if known is kind:
            return name
    path = f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', '')}"
    built_in = _NAMES.get(path)
    return built_in if built_in is not None and _imported(path) is kind else None


def is_registered(name: str) -> bool:
    """Return True if the program has registered a kind under `name`."""
    return name in _registered


@contextlib.contextmanager
def isolated_kinds(*, empty: bool) -> Iterator[None]:
    """Restore the registered kinds when the `with` block ends."""
    before = dict(_registered)
    if empty:
        _registered.clear()
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before)


def _imported(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _is_reloaded(known: Any, kind: Any) -> bool:
    """Return True if `kind` is `known`, or its new definition in a reloaded module."""
    if known is kind:
        return True
    names = ("__module__", "__qualname__")
    return all(getattr(known, name, known) == getattr(kind, name, kind) for name in names)
