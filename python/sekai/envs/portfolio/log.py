"""Episode log of portfolios: trades and accounts step by step, and JSON Lines and Parquet files.

A file holds one log or more. Each has a record of the kind `episode`, and one for each step and
each trade; `log` is the number of the log in the file that a record belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch
from sekai.data import MarketData
from sekai.envs.portfolio.panel import INFO
from sekai.error import DataError, ResetRequired
from sekai.market.costs import COST_KINDS
from sekai.storage.files import replace_file
from sekai.storage.optional import optional_import

__all__ = [
    "COST_KINDS",
    "EpisodeLog",
    "StepLog",
    "Trades",
    "current_holdings",
    "join_logs",
    "participated",
    "portfolio_scene",
    "read_jsonl",
    "read_parquet",
    "write_jsonl",
    "write_parquet",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Times = NDArray[np.datetime64]
NativeLog = dict[str, Any]
Columns = dict[str, Any]
"""Columns of one kind of record, by name: arrays, or lists where an item is a list itself."""

SHARED_FIELDS = ("equity", "cash", "pnl", "cost", "turnover", "drawdown", "delisted", "dividends")
"""Keys of an info that are fields of `StepLog`."""

LEAD = 5
"""Columns of a native step before those of `INFO`: agent, reward, seconds, refused, waived."""

SECONDS = 2
"""Column of a native step with its duration; NaN of an agent that took no part in it."""

LOG_COLUMNS = ("row", "agent", "asset", "units", "price", "rate", "steps")
"""Columns of a native log that grow with it."""

RECORD_KINDS = ("episode", "step", "trade")
DTYPES: dict[str, Any] = {
    "row": np.int64,
    "agent": np.int64,
    "margin_call": np.bool_,
    "asset": np.str_,
    "is_delisting": np.bool_,
    "time": "datetime64[ns]",
}
"""Dtypes of columns that are not float64."""


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

    costs: Floats
    """Costs paid: steps by `COST_KINDS`."""

    weights: Floats
    """Weights of the assets, then of cash: steps by assets plus one."""

    def __len__(self) -> int:
        return len(self.row)

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
            raise KeyError(f"unknown cost kind {kind!r}; expected one of {', '.join(COST_KINDS)}")
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

    @classmethod
    def take(cls, batch: Any) -> list[EpisodeLog]:
        """Logs of all envs of a portfolio batch since the last call."""
        agents = tuple(batch.config.members)
        return [cls.of(log, batch.data, agents) for log in batch.take_log()]

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
            steps=_step_log(log["steps"][participated(log["steps"])], data),
        )

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

    def of_agent(self, agent: int | str) -> EpisodeLog:
        """Log of one agent, selected by name or index."""
        if isinstance(agent, str) and agent not in self.agents:
            raise KeyError(f"unknown agent {agent!r}; expected one of {', '.join(self.agents)}")
        index = self.agents.index(agent) if isinstance(agent, str) else agent
        return replace(
            self,
            agents=(self.agents[index],),
            opening_cash=self.opening_cash[[index]],
            opening_units=self.opening_units[[index]],
            trades=_select_agent(self.trades, index),
            steps=_select_agent(self.steps, index),
        )

    def to_jsonl(self, path: str | Path) -> None:
        """Write a line of JSON for the episode, each step and each trade, atomically."""
        write_jsonl([self], path)

    def to_parquet(self, path: str | Path) -> None:
        """Write a row for the episode, each step and each trade, atomically."""
        write_parquet([self], path)


def write_jsonl(logs: Iterable[EpisodeLog], path: str | Path) -> None:
    """Write logs as JSON Lines, atomically."""
    with replace_file(path, ".jsonl") as draft, draft.open("w", encoding="utf-8") as file:
        for index, log in enumerate(logs):
            for kind, columns in _tables(log).items():
                for record in _records(columns):
                    file.write(json.dumps({"kind": kind, "log": index, **record}) + "\n")


def read_jsonl(path: str | Path) -> list[EpisodeLog]:
    """Read the logs of `write_jsonl`."""
    logs: dict[int, dict[str, list[Columns]]] = {}
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            _add_record(line, number, logs)
    return [
        _log_from({kind: _columns(records, kind) for kind, records in log.items()})
        for log in logs.values()
    ]


def write_parquet(logs: Sequence[EpisodeLog], path: str | Path) -> None:
    """Write logs as one Parquet file, atomically."""
    arrow, parquet = _arrow()
    tables = []
    for index, log in enumerate(logs):
        for kind, columns in _tables(log).items():
            rows = len(next(iter(columns.values())))
            tables.append(
                arrow.table({"kind": [kind] * rows, "log": np.full(rows, index), **columns})
            )
    with replace_file(path, ".parquet") as draft:
        parquet.write_table(arrow.concat_tables(tables, promote_options="permissive"), draft)


def read_parquet(path: str | Path) -> list[EpisodeLog]:
    """Read the logs of `write_parquet`."""
    arrow, parquet = _arrow()
    table = parquet.read_table(path)
    if not {"kind", "log"} <= set(table.column_names):
        raise DataError(
            f"not a file of episode logs: got the columns {table.column_names}, expected 'kind' "
            "and 'log' among them"
        )
    logs = []
    for index in sorted(set(table["log"].to_pylist())):
        rows = table.filter(arrow.compute.equal(table["log"], index))
        kinds = {k: rows.filter(arrow.compute.equal(rows["kind"], k)) for k in RECORD_KINDS}
        logs.append(_log_from({kind: _from_arrow(part) for kind, part in kinds.items()}))
    return logs


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


def portfolio_scene(
    holdings: Holdings, data: MarketData, agents: Mapping[str, float], benchmark: Floats
) -> dict[str, Any]:
    """State of portfolios for renderers.

    Args:
        holdings: cash and units of the agents.
        data: all known rows.
        agents: initial cash of each agent, by name.
        benchmark: level of the benchmark in each row.
    """
    values = holdings.units * _marks(data, holdings.row, holdings.units)
    equity = holdings.cash + values.sum(axis=1)
    parts = np.column_stack([values, holdings.cash])
    weights = np.divide(parts, equity[:, None], out=np.zeros_like(parts), where=equity[:, None] > 0)
    return {
        "seed": holdings.seed,
        "episode": holdings.episode,
        "tick": holdings.row,
        "time": data.times[holdings.row],
        "agents": tuple(agents),
        "assets": data.assets,
        "beginnings": np.array(list(agents.values())),
        "equities": equity,
        "weights": weights.astype(np.float32),
        "benchmark": float(benchmark[holdings.row]),
    }


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


def _marks(data: MarketData, row: int, units: Floats) -> Floats:
    """Last price of each asset that is held; 0 for others."""
    closes = data.field("close")
    marks = np.where(data.quoted[row], closes[row], 0.0)
    for asset in np.flatnonzero(~data.quoted[row] & (units != 0).any(axis=0)):
        quoted = np.flatnonzero(data.quoted[:row, asset])
        marks[asset] = closes[quoted[-1], asset]
    return marks


def _step_log(table: Floats, data: MarketData) -> StepLog:
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
        costs=np.stack([info[kind] for kind in COST_KINDS], axis=1),
        weights=table[:, LEAD + len(INFO) :],
        **{name: info[name] for name in SHARED_FIELDS},
    )


def _select_agent(table: Any, agent: int) -> Any:
    rows = table.agent == agent
    columns = {each.name: getattr(table, each.name)[rows] for each in fields(table)}
    return type(table)(**{**columns, "agent": np.zeros_like(columns["agent"])})


def _tables(log: EpisodeLog) -> dict[str, Columns]:
    episode = {
        "env": [log.env],
        "seed": np.array([log.seed], np.uint64),
        "episode": [log.episode],
        "agents": [list(log.agents)],
        "assets": [list(log.assets)],
        "sectors": [[log.sectors.get(asset, "") for asset in log.assets]],
        "opening_row": [log.opening_row],
        "opening_time": np.array([log.opening_time]),
        "opening_cash": [log.opening_cash.tolist()],
        "opening_units": [log.opening_units.ravel().tolist()],
    }
    steps = {each.name: getattr(log.steps, each.name) for each in fields(StepLog)}
    costs = steps.pop("costs")
    steps.update({kind: costs[:, index] for index, kind in enumerate(COST_KINDS)})
    steps["weights"] = list(steps["weights"])
    trades = {each.name: getattr(log.trades, each.name) for each in fields(Trades)}
    return {"episode": episode, "step": steps, "trade": trades}


def _log_from(tables: dict[str, Columns]) -> EpisodeLog:
    episodes, steps, trades = (tables[kind] for kind in RECORD_KINDS)
    count = len(episodes.get("env", ()))
    if count != 1:
        raise DataError(f"a log must have one episode record, got {count}")
    episode = {name: column[0] for name, column in episodes.items()}
    assets = tuple(episode["assets"])
    sectors = zip(assets, episode["sectors"], strict=True)
    costs = [_array(kind, steps.pop(kind, ())) for kind in COST_KINDS]
    weights = np.array(list(steps.pop("weights", ())), np.float64).reshape(-1, len(assets) + 1)
    step_columns = _arrays(StepLog, steps)
    step_columns.update(costs=np.stack(costs, axis=1), weights=weights)
    return EpisodeLog(
        env=int(episode["env"]),
        seed=int(episode["seed"]),
        episode=int(episode["episode"]),
        agents=tuple(episode["agents"]),
        assets=assets,
        sectors={asset: sector for asset, sector in sectors if sector},
        opening_row=int(episode["opening_row"]),
        opening_time=np.datetime64(episode["opening_time"], "ns"),
        opening_cash=np.array(episode["opening_cash"], np.float64),
        opening_units=np.array(episode["opening_units"], np.float64).reshape(-1, len(assets)),
        trades=Trades(**_arrays(Trades, trades)),
        steps=StepLog(**step_columns),
    )


def _arrays(kind: Any, columns: Columns) -> Columns:
    return {each.name: _array(each.name, columns.get(each.name, ())) for each in fields(kind)}


def _array(name: str, values: Any) -> Any:
    return np.array(values, DTYPES.get(name, np.float64))


def _records(columns: Columns) -> Iterator[Columns]:
    for values in zip(*map(_plain, columns.values()), strict=True):
        yield dict(zip(columns, values, strict=True))


def _plain(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray):
        is_time = column.dtype.kind == "M"
        return list(np.datetime_as_string(column)) if is_time else column.tolist()
    return [item.tolist() if isinstance(item, np.ndarray) else item for item in column]


def _add_record(line: str, number: int, logs: dict[int, dict[str, list[Columns]]]) -> None:
    try:
        record = json.loads(line)
        kinds = logs.setdefault(record.pop("log"), {kind: [] for kind in RECORD_KINDS})
        kinds[record.pop("kind")].append(record)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"line {number} is not a record of an episode log: {line!r}") from error


def _columns(records: list[Columns], kind: str) -> Columns:
    names = (records or [{}])[0]
    if any(record.keys() != names.keys() for record in records):
        raise DataError(f"records of the kind {kind!r} must have the same columns")
    return {name: [record[name] for record in records] for name in names}


def _from_arrow(table: Any) -> Columns:
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        is_time = str(column.type).startswith("timestamp")
        columns[name] = column.cast("int64").to_pylist() if is_time else column.to_pylist()
    return columns


def _arrow() -> tuple[Any, Any]:
    names = ("pyarrow.compute", "pyarrow", "pyarrow.parquet")
    _, arrow, parquet = (optional_import(name, "data", "a log as Parquet") for name in names)
    return arrow, parquet
