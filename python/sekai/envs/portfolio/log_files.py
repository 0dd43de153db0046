"""Files of episode logs: JSON Lines and Parquet.

A file holds one log or more. Each has a record of the kind `episode`, and one for each step and
each trade; `log` is the number of the log in the file that a record belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from sekai.envs.portfolio.exposures import ExposureLimits
from sekai.envs.portfolio.log import EpisodeLog, StepLog, Trades
from sekai.error import DataError
from sekai.market.costs import COST_KINDS
from sekai.storage.files import replace_file
from sekai.storage.optional import optional_import

Columns = dict[str, Any]
"""Columns of one kind of record, by name: arrays, or lists where an item is a list itself."""

WEIGHTS = ("weights", "ordered_weights")
"""Columns of `StepLog` with a row of weights for each step."""

RECORD_KINDS = ("episode", "step", "trade")
DTYPES: dict[str, Any] = {
    "row": np.int64,
    "agent": np.int64,
    "compromise": np.int64,
    "margin_call": np.bool_,
    "asset": np.str_,
    "is_delisting": np.bool_,
    "time": "datetime64[ns]",
}
"""Dtypes of columns that are not float64."""


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
        "limits": [[limit for limits in log.limits for limit in limits.to_list()]],
    }
    steps = {each.name: getattr(log.steps, each.name) for each in fields(StepLog)}
    costs = steps.pop("costs")
    steps.update({kind: costs[:, index] for index, kind in enumerate(COST_KINDS)})
    for name in WEIGHTS:
        steps[name] = list(steps[name])
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
    weights = {
        name: np.array(list(steps.pop(name, ())), np.float64).reshape(-1, len(assets) + 1)
        for name in WEIGHTS
    }
    step_columns = _arrays(StepLog, steps)
    step_columns.update(costs=np.stack(costs, axis=1), **weights)
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
        limits=ExposureLimits.from_list(episode["limits"], assets, set(episode["sectors"]) - {""}),
    )


def _arrays(kind: Any, columns: Columns) -> Columns:
    names = [each.name for each in fields(kind) if each.name not in ("costs", *WEIGHTS)]
    missing = [name for name in names if name not in columns]
    if missing and columns:
        raise DataError(f"a log must have the columns {missing}, got {list(columns)}")
    return {name: _array(name, columns.get(name, ())) for name in names}


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
