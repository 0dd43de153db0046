"""Logs of portfolios in files, and back: JSON Lines and Parquet, with the same columns.

A file holds one log or more. Each has a record of the kind `episode`, and one for each step and
each trade; `log` says which log of the file a record belongs to.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from sekai.envs.portfolio_log import COST_KINDS, EpisodeLog, Steps, Trades
from sekai.error import DataError, MissingExtraError
from sekai.rendering.replacement import replacing

__all__ = ["read_jsonl", "read_parquet", "write_jsonl", "write_parquet"]

Columns = dict[str, Any]
"""Columns of one kind of record, by name: arrays, or lists where an item is a list itself."""

KINDS = ("episode", "step", "trade")
TYPES = {
    "row": np.int64, "agent": np.int64, "margin_call": np.bool_, "asset": np.str_,
    "is_delisting": np.bool_,
}  # fmt: skip
"""Of columns that are not of numbers; those of times are `datetime64[ns]`."""


def write_jsonl(logs: Iterable[EpisodeLog], path: str | Path) -> None:
    """Write logs as lines of JSON; the file is the old one or the new one, never half."""
    with replacing(path, ".jsonl") as draft, draft.open("w", encoding="utf-8") as file:
        for place, log in enumerate(logs):
            for kind, columns in _tables(log).items():
                for record in _records(columns):
                    file.write(json.dumps({"kind": kind, "log": place, **record}) + "\n")


def read_jsonl(path: str | Path) -> list[EpisodeLog]:
    """The logs that `write_jsonl` wrote."""
    found: dict[int, dict[str, list[Columns]]] = {}
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            _sort_in(line, number, found)
    logs = found.values()
    return [_log({kind: _columns(kept, kind) for kind, kept in log.items()}) for log in logs]


def write_parquet(logs: Sequence[EpisodeLog], path: str | Path) -> None:
    """Write logs as one Parquet file; it is the old one or the new one, never half."""
    arrow, parquet = _arrow()
    tables = []
    for place, log in enumerate(logs):
        for kind, columns in _tables(log).items():
            rows = len(next(iter(columns.values())))
            named = {"kind": [kind] * rows, "log": np.full(rows, place), **columns}
            tables.append(arrow.table(named))
    with replacing(path, ".parquet") as draft:
        parquet.write_table(arrow.concat_tables(tables, promote_options="permissive"), draft)


def read_parquet(path: str | Path) -> list[EpisodeLog]:
    """The logs that `write_parquet` wrote."""
    arrow, parquet = _arrow()
    table = parquet.read_table(path)
    if not {"kind", "log"} <= set(table.column_names):
        raise DataError(f"a file of logs was wanted, found the columns {table.column_names}")
    logs = []
    for place in sorted(set(table["log"].to_pylist())):
        of_log = table.filter(arrow.compute.equal(table["log"], place))
        kinds = {kind: of_log.filter(arrow.compute.equal(of_log["kind"], kind)) for kind in KINDS}
        logs.append(_log({kind: _from_arrow(found) for kind, found in kinds.items()}))
    return logs


def _tables(log: EpisodeLog) -> dict[str, Columns]:
    episode = {
        "env": [log.env], "seed": np.array([log.seed], np.uint64), "episode": [log.episode],
        "agents": [list(log.agents)], "assets": [list(log.assets)],
        "sectors": [[log.sectors.get(asset, "") for asset in log.assets]],
        "opening_row": [log.opening_row], "opening_time": np.array([log.opening_time]),
        "opening_cash": [log.opening_cash.tolist()],
        "opening_units": [log.opening_units.ravel().tolist()],
    }  # fmt: skip
    steps = {each.name: getattr(log.steps, each.name) for each in fields(Steps)}
    paid = steps.pop("costs")
    steps.update({kind: paid[:, place] for place, kind in enumerate(COST_KINDS)})
    steps["weights"] = list(steps["weights"])
    trades = {each.name: getattr(log.trades, each.name) for each in fields(Trades)}
    return {"episode": episode, "step": steps, "trade": trades}


def _log(tables: dict[str, Columns]) -> EpisodeLog:
    episode, steps, trades = (tables[kind] for kind in KINDS)
    if len(episode.get("env", ())) != 1:
        raise DataError(f"one episode in a log was wanted, found {len(episode.get('env', ()))}")
    one = {name: column[0] for name, column in episode.items()}
    assets = tuple(one["assets"])
    pairs = zip(assets, one.pop("sectors"), strict=True)
    units = np.array(one.pop("opening_units"), np.float64).reshape(-1, len(assets))
    width = len(assets) + 1
    paid = [_array(kind, steps.pop(kind, ())) for kind in COST_KINDS]
    weights = np.array(list(steps.pop("weights", ())), np.float64).reshape(-1, width)
    kept = {each.name: _array(each.name, steps.get(each.name, ())) for each in fields(Steps)}
    kept.update(costs=np.stack(paid, axis=1), weights=weights)
    return EpisodeLog(
        env=int(one["env"]), seed=int(one["seed"]), episode=int(one["episode"]),
        agents=tuple(one["agents"]), assets=assets,
        sectors={asset: sector for asset, sector in pairs if sector},
        opening_row=int(one["opening_row"]),
        opening_time=np.datetime64(one["opening_time"], "ns"),
        opening_cash=np.array(one["opening_cash"], np.float64), opening_units=units,
        trades=Trades(**{e.name: _array(e.name, trades.get(e.name, ())) for e in fields(Trades)}),
        steps=Steps(**kept),
    )  # fmt: skip


def _array(name: str, values: Any) -> Any:
    kind = "datetime64[ns]" if name == "time" else TYPES.get(name, np.float64)
    return np.array(values, kind)


def _records(columns: Columns) -> Iterator[Columns]:
    plain = [_plain(column) for column in columns.values()]
    for values in zip(*plain, strict=True):
        yield dict(zip(columns, values, strict=True))


def _plain(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray):
        is_time = column.dtype.kind == "M"
        return list(np.datetime_as_string(column)) if is_time else column.tolist()
    return [item.tolist() if isinstance(item, np.ndarray) else item for item in column]


def _sort_in(line: str, number: int, found: dict[int, dict[str, list[Columns]]]) -> None:
    try:
        record = json.loads(line)
        kinds = found.setdefault(record.pop("log"), {kind: [] for kind in KINDS})
        kinds[record.pop("kind")].append(record)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"a record of a log was wanted in line {number}, found {line!r}") from error


def _columns(records: list[Columns], kind: str) -> Columns:
    names = (records or [{}])[0]
    if any(record.keys() != names.keys() for record in records):
        raise DataError(f"records of the kind {kind!r} with the same columns were wanted")
    return {name: [record[name] for record in records] for name in names}


def _from_arrow(table: Any) -> Columns:
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        is_time = str(column.type).startswith("timestamp")
        columns[name] = column.cast("int64").to_pylist() if is_time else column.to_pylist()
    return columns


def _arrow() -> tuple[Any, Any]:
    try:
        importlib.import_module("pyarrow.compute")
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError.of("pyarrow", "data", "a log as Parquet") from error
