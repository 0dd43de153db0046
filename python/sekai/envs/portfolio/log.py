"""Episode log of portfolios: trades and accounts step by step, as arrays, frames and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch
from sekai.data import MarketData
from sekai.envs.portfolio.exposures import ExposureLimits, Exposures
from sekai.envs.portfolio.panel import INFO
from sekai.error import ResetRequired
from sekai.market.costs import COST_KINDS
from sekai.storage.display import brief_repr, html_table, short_time
from sekai.storage.names import unknown_name

__all__ = [
    "COST_KINDS",
    "EpisodeLog",
    "Holdings",
    "StepLog",
    "Trades",
    "current_holdings",
    "join_logs",
    "participated",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.datetime64]
NativeLog = dict[str, Any]
SHARED_FIELDS = ("equity", "cash", "pnl", "cost", "turnover", "drawdown", "delisted", "dividends")
"""Keys of an info that are fields of `StepLog`, as numbers."""

LEAD = 5
"""Columns of a native step before those of `INFO`: agent, reward, seconds, refused, waived."""

SECONDS = 2
"""Column of a native step with its duration; NaN of an agent that took no part in it."""

LOG_COLUMNS = ("row", "agent", "asset", "units", "price", "rate", "steps", "ordered")
"""Columns of a native log that grow with it."""


@dataclass(frozen=True, slots=True, eq=False)
class Trades:
    """Fills in order of execution, and positions that a delisting turned into cash."""

    row: Integers
    """Row of the data."""

    time: Times
    """Time of that row."""

    agent: Integers
    """Index into `EpisodeLog.agents`."""

    asset: NDArray[np.str_]
    """Name of the asset."""

    units: Floats
    """Units traded; negative for a sale."""

    price: Floats
    """Fill price."""

    rate: Floats
    """Cost as a share of the value traded, without fixed costs."""

    is_delisting: NDArray[np.bool_]
    """True where the asset was delisted and the position became cash without an order."""

    def __len__(self) -> int:
        return len(self.row)

    __repr__ = brief_repr

    def to_frame(self, backend: str = "pandas") -> Any:
        """Convert to a frame with a row for each trade, and columns `value` and `cost`.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        return _frame(_trade_columns(self), backend, "Trades.to_frame")

    @property
    def value(self) -> Floats:
        """Value traded: paid for a purchase, negative for a sale."""
        return self.units * self.price

    @property
    def cost(self) -> Floats:
        """Cost of each trade, without fixed costs."""
        return np.abs(self.value) * self.rate


@dataclass(frozen=True, slots=True, eq=False)
class StepLog:
    """Account after each step; with several agents, one agent after the other.

    A ruined agent has no more steps.
    """

    row: Integers
    """Row of the data that the step reached."""

    time: Times
    """Time of that row."""

    agent: Integers
    """Index into `EpisodeLog.agents`."""

    reward: Floats
    seconds: Floats
    """Duration of the step."""

    equity: Floats
    cash: Floats
    pnl: Floats
    """Change of equity."""

    cost: Floats
    """Total cost paid."""

    turnover: Floats
    """Value traded over equity."""

    drawdown: Floats
    """Loss from the highest equity, as a share of it."""

    margin_call: NDArray[np.bool_]
    """True where only reductions were possible."""

    refused: Floats
    """Value of due orders that were not filled: too expensive for the account, or above a limit."""

    waived: Floats
    """Costs that a cash account could not pay because it had no equity left."""

    delisted: Floats
    """Value of positions that became cash because their assets were delisted."""

    dividends: Floats
    """Dividends received, less those paid on short positions."""

    compromise: Integers
    """Constraints relaxed at the decision of the step: bits of `sekai.market.Compromise`; 0 where
    all were met."""

    costs: Floats
    """Costs paid: steps by `COST_KINDS`."""

    weights: Floats
    """Weights of the assets, then of cash: steps by assets plus one."""

    ordered_weights: Floats
    """Weights ordered at the decision of the step, after the projection onto the constraints; NaN
    for orders in units."""

    __repr__ = brief_repr

    def __len__(self) -> int:
        return len(self.row)

    def to_frame(self, backend: str = "pandas") -> Any:
        """Convert to a frame with a row for each step, a column for each cost, and no weights.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        return _frame(_step_columns(self), backend, "StepLog.to_frame")

    @property
    def gross_exposure(self) -> Floats:
        """Gross exposure over equity."""
        return np.asarray(np.abs(self.weights[:, :-1]).sum(axis=1))

    @property
    def net_exposure(self) -> Floats:
        """Net exposure over equity."""
        return np.asarray(self.weights[:, :-1].sum(axis=1))

    def cost_of(self, kind: str) -> Floats:
        """Costs paid of one kind."""
        if kind not in COST_KINDS:
            raise KeyError(unknown_name("cost kind", kind, COST_KINDS))
        paid: Floats = self.costs[:, COST_KINDS.index(kind)]
        return paid

    def latency(self, quantile: float = 0.5) -> float:
        """Quantile of the duration of steps, in seconds."""
        return float(np.quantile(self.seconds, quantile)) if len(self) else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeLog:
    """Log of one episode, or of the part recorded since the log was last taken."""

    env: int
    """Index of the env in its batch."""

    seed: int
    """Seed of the env."""

    episode: int
    """Number of episodes started before with that seed."""

    agents: tuple[str, ...]
    """Names of the agents; `("portfolio",)` for a single one."""

    assets: tuple[str, ...]
    """Names of the assets, free slots included."""

    sectors: Mapping[str, str]
    """Sector of each asset that has one."""

    opening_row: int
    """Row at which the log begins."""

    opening_time: np.datetime64
    """Time of that row."""

    opening_cash: Floats
    """Cash of each agent at that row."""

    opening_units: Floats
    """Units held at that row: agents by assets."""

    trades: Trades
    steps: StepLog

    limits: tuple[ExposureLimits, ...] = ()
    """Caps of each agent; empty if they are not known."""

    @classmethod
    def take(cls, batch: Any) -> list[EpisodeLog]:
        """Logs of all envs of a portfolio batch since the last call."""
        members, data = batch.config.members, batch.data
        limits = tuple(
            ExposureLimits.of(member.constraints, member.account, data)
            for member in members.values()
        )
        logs = [cls.of(log, data, tuple(members)) for log in batch.take_log()]
        return [replace(log, limits=limits) for log in logs]

    @classmethod
    def take_by_agent(cls, batch: Any) -> dict[str, list[EpisodeLog]]:
        """Logs of each agent of a batch, by name."""
        logs = cls.take(batch)
        return {name: [log.of_agent(name) for log in logs] for name in batch.config.members}

    @classmethod
    def of(
        cls, log: Mapping[str, Any], data: MarketData, agents: Sequence[str] = ("portfolio",)
    ) -> EpisodeLog:
        """Log of the native batch with names of agents and assets, and times."""
        row = log["row"].astype(np.int64)
        trades = Trades(
            row=row,
            time=data.times[row],
            agent=log["agent"].astype(np.int64),
            asset=np.array(data.assets)[log["asset"]],
            units=log["units"],
            price=log["price"],
            rate=log["rate"],
            is_delisting=~data.listed[row, log["asset"].astype(np.int64)],
        )
        opening = int(log["opening_row"])
        return cls(
            env=log["env"],
            seed=log["seed"],
            episode=log["episode"],
            agents=tuple(agents),
            assets=data.assets,
            sectors=dict(data.sectors),
            opening_row=opening,
            opening_time=data.times[opening],
            opening_cash=log["opening_cash"],
            opening_units=log["opening_units"].reshape(-1, len(data.assets)),
            trades=trades,
            steps=_step_log(log, data),
        )

    def __repr__(self) -> str:
        return f"EpisodeLog({self._summary()})"

    def _repr_html_(self) -> str:
        last = self.steps.agent[:, None] == np.arange(len(self.agents))
        rows = [
            self._agent_row(index, np.flatnonzero(last[:, index]))
            for index in range(len(self.agents))
        ]
        header = ("agent", "steps", "trades", "equity", "profit", "costs", "max drawdown")
        return html_table(f"Episode log: {self._summary()}", header, rows)

    def _summary(self) -> str:
        times = self.steps.time
        end = short_time(times[-1]) if len(times) else "no steps"
        return (
            f"seed {self.seed}, episode {self.episode}, {len(self.agents)} agents, "
            f"{len(self.assets)} assets, {len(self.steps)} steps, {len(self.trades)} trades, "
            f"{short_time(self.opening_time)} to {end}, profit {self.pnl:,.2f}"
        )

    def _agent_row(self, agent: int, rows: Integers) -> tuple[object, ...]:
        steps = self.steps
        equity = f"{steps.equity[rows[-1]]:,.2f}" if len(rows) else ""
        return (
            self.agents[agent],
            len(rows),
            int((self.trades.agent == agent).sum()),
            equity,
            f"{steps.pnl[rows].sum():,.2f}",
            f"{steps.cost[rows].sum():,.2f}",
            f"{steps.drawdown[rows].max(initial=0.0):.2%}",
        )

    def to_frame(self, table: str = "steps", backend: str = "pandas") -> Any:
        """Convert a table of the log to a frame, with names of agents.

        Args:
            table: `steps` (accounts after each step), `trades` (fills) or `weights` (a row for
                each step, a column for each asset and one for `cash`).
            backend: `pandas`, `polars` or `pyarrow`.
        """
        tables = {"steps": self.steps, "trades": self.trades, "weights": self.steps}
        if table not in tables:
            raise ValueError(f"table must be one of {tuple(tables)}, got {table!r}")
        rows: Any = tables[table]
        columns: dict[str, Any] = {"time": rows.time, "agent": np.array(self.agents)[rows.agent]}
        if table == "weights":
            names = (*self.assets, "cash")
            columns |= {name: rows.weights[:, index] for index, name in enumerate(names)}
        else:
            own = _step_columns(rows) if table == "steps" else _trade_columns(rows)
            columns |= {name: column for name, column in own.items() if name not in columns}
        return _frame(columns, backend, "EpisodeLog.to_frame")

    def plot(self, *, axes: Any = None) -> Any:
        """Plot equity and drawdown of each agent; return both matplotlib axes.

        Args:
            axes: two axes to plot on; by default those of a new figure.
        """
        from sekai.data.summary import new_axes

        pair = new_axes("EpisodeLog.plot", 2) if axes is None else axes
        for index, name in enumerate(self.agents):
            rows = self.steps.agent == index
            times = self.steps.time[rows]
            pair[0].plot(times, self.steps.equity[rows], label=name)
            pair[1].plot(times, -self.steps.drawdown[rows], label=name)
        pair[0].set_ylabel("equity")
        pair[1].set_ylabel("drawdown")
        pair[0].legend()
        return pair

    @property
    def pnl(self) -> float:
        """Profit of all agents."""
        return float(self.steps.pnl.sum())

    @property
    def costs(self) -> dict[str, float]:
        """Costs paid by all agents, by kind."""
        return dict(zip(COST_KINDS, self.steps.costs.sum(axis=0).tolist(), strict=True))

    @property
    def dividends(self) -> float:
        """Dividends of all agents: received on long, paid on short positions."""
        return float(self.steps.dividends.sum())

    def sector_exposure(self, *, net: bool = False) -> dict[str, Floats]:
        """Gross or net exposure to each sector after each step."""
        weights = self.steps.weights[:, :-1] if net else np.abs(self.steps.weights[:, :-1])
        owners = np.array([self.sectors.get(asset, "") for asset in self.assets])
        return {
            sector: np.asarray(weights[:, owners == sector].sum(axis=1))
            for sector in sorted(set(self.sectors.values()))
        }

    def exposures(self) -> Exposures:
        """Largest weight, sector and gross exposure at decisions and after drift."""
        return Exposures.of(self)

    def of_agent(self, agent: int | str) -> EpisodeLog:
        """Log of one agent, selected by name or index."""
        if isinstance(agent, str) and agent not in self.agents:
            raise KeyError(unknown_name("agent", agent, self.agents))
        index = self.agents.index(agent) if isinstance(agent, str) else agent
        return replace(
            self,
            agents=(self.agents[index],),
            opening_cash=self.opening_cash[[index]],
            opening_units=self.opening_units[[index]],
            trades=_select_agent(self.trades, index),
            steps=_select_agent(self.steps, index),
            limits=self.limits[index : index + 1],
        )

    def to_jsonl(self, path: str | Path) -> None:
        """Write a line of JSON for the episode, each step and each trade, atomically."""
        from sekai.envs.portfolio.log_files import write_jsonl

        write_jsonl([self], path)

    def to_parquet(self, path: str | Path) -> None:
        """Write a row for the episode, each step and each trade, atomically."""
        from sekai.envs.portfolio.log_files import write_parquet

        write_parquet([self], path)


def participated(steps: Floats) -> NDArray[np.bool_]:
    """Mask of native steps whose agent took part in them."""
    mask: NDArray[np.bool_] = ~np.isnan(steps[:, SECONDS])
    return mask


@dataclass(frozen=True, slots=True, eq=False)
class Holdings:
    """Cash and units of all agents of one env."""

    seed: int
    episode: int
    row: int
    cash: Floats
    """One number for each agent."""
    units: Floats
    """Agents by assets."""


def current_holdings(reader: PortfolioBatch, state: Mapping[str, Any], env: int) -> Holdings:
    """Read the holdings of one env from the state of a batch.

    A batch that keeps a log opens one with the holdings when a state is loaded. `reader` is a
    batch like that of the state, or that batch itself; afterwards it keeps no log.
    """
    reader.waits(env)  # raises for an unknown env
    reader.keep_log(True)
    try:
        reader.load_state_dict(state)
        log = {log["env"]: log for log in reader.take_log()}[env]
    finally:
        reader.keep_log(False)
    row, cash = int(log["opening_row"]), log["opening_cash"]
    # An episode starts with cash.
    if row == 0 and not cash.any() and not log["opening_units"].any():
        raise ResetRequired(f"env {env} is in no episode: call reset() first")
    units = log["opening_units"].reshape(len(cash), -1)
    return Holdings(log["seed"], log["episode"], row, cash, units)


def join_logs(before: Sequence[NativeLog], after: Sequence[NativeLog]) -> list[NativeLog]:
    """Join native logs taken one after the other, as if they had been taken at once.

    Two parts of one episode become one log again.
    """
    logs: list[NativeLog] = []
    for env in sorted({int(log["env"]) for log in [*before, *after]}):
        first = [log for log in before if log["env"] == env]
        later = [log for log in after if log["env"] == env]
        if first and later and _continues(first[-1], later[0]):
            second = later.pop(0)
            first[-1] = first[-1] | {
                name: np.concatenate([first[-1][name], second[name]]) for name in LOG_COLUMNS
            }
        logs += first + later
    return logs


def _continues(first: NativeLog, second: NativeLog) -> bool:
    if any(int(first[name]) != int(second[name]) for name in ("env", "seed", "episode")):
        return False
    # The row is the first number of the info.
    steps = first["steps"]
    last_row = steps[-1, LEAD] if len(steps) else first["opening_row"]
    return int(last_row) == int(second["opening_row"])


def _step_log(log: Mapping[str, Any], data: MarketData) -> StepLog:
    rows = participated(log["steps"])
    table = log["steps"][rows]
    info = {name: table[:, LEAD + index] for index, name in enumerate(INFO)}
    row = info["time_index"].astype(np.int64)
    return StepLog(
        row=row,
        time=data.times[row],
        agent=table[:, 0].astype(np.int64),
        reward=table[:, 1],
        seconds=table[:, SECONDS],
        refused=table[:, 3],
        waived=table[:, 4],
        margin_call=info["margin_call"] > 0,
        compromise=info["compromise"].astype(np.int64),
        costs=np.stack([info[kind] for kind in COST_KINDS], axis=1),
        weights=table[:, LEAD + len(INFO) :],
        ordered_weights=log["ordered"][rows],
        **{name: info[name] for name in SHARED_FIELDS},
    )


def _select_agent(table: Any, agent: int) -> Any:
    rows = table.agent == agent
    columns = {each.name: getattr(table, each.name)[rows] for each in fields(table)}
    return type(table)(**{**columns, "agent": np.zeros_like(columns["agent"])})


def _trade_columns(trades: Trades) -> dict[str, Any]:
    columns = {each.name: getattr(trades, each.name) for each in fields(trades)}
    return {**columns, "value": trades.value, "cost": trades.cost}


def _step_columns(steps: StepLog) -> dict[str, Any]:
    columns = {each.name: getattr(steps, each.name) for each in fields(steps)}
    costs = columns.pop("costs")
    del columns["weights"], columns["ordered_weights"]
    return {**columns, **{kind: costs[:, index] for index, kind in enumerate(COST_KINDS)}}


def _frame(columns: dict[str, Any], backend: str, purpose: str) -> Any:
    from sekai.data.writing import as_frame

    return as_frame(columns, backend, purpose)
