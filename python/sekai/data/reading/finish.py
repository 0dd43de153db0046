"""Makes a panel of what was read: fills what was asked for, sets the masks, leaves out the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import Calendar
from sekai.data.delisting import inferred_delistings, lifetimes
from sekai.data.market_data import PRICE_FIELDS
from sekai.data.policies import Policies
from sekai.data.problems import Problem
from sekai.data.reading.assemble import Assembled
from sekai.data.reading.checks import Fill, Verdict, note
from sekai.data.reading.columns import VOLUME_FIELDS, refuse
from sekai.data.reading.ledger import Ledger
from sekai.data.reading.options import Options, nanoseconds

__all__ = ["finish", "sealed"]

Bools = NDArray[np.bool_]
MASKED = ("values", "listed", "quoted", "tradable")


def finish(panel: Assembled, verdict: Verdict, options: Options, ledger: Ledger) -> dict[str, Any]:
    """What a `MarketData` is made of."""
    policies = options.policies
    listed, named = _table_of_listings(panel, options)
    outside = panel.present & ~listed
    note(panel, ledger, "listing", policies.listing, outside, None, "a row while not listed")
    verdict.dropped |= outside
    panel.values[verdict.dropped] = np.nan
    panel.present &= ~verdict.dropped
    alive = np.where(named, listed, _alive(panel, policies, named, ledger))
    quoted = _quoted(panel, verdict)
    tradable = quoted & panel.masks.get("tradable", np.True_)
    for fill in verdict.fills:
        filled = _forward_fill(panel, fill, alive, policies, ledger)
        name = panel.fields[fill.place]
        traded = name in (*PRICE_FIELDS, *VOLUME_FIELDS)
        # Quotes were told before anything was filled: a price that is repeated is none.
        quoted &= ~(fill.holes & ~filled) if traded else True
        tradable &= ~fill.holes & quoted if traded else True
    made_of: dict[str, Any] = {
        "times": panel.times, "assets": panel.assets, "fields": panel.fields,
        "values": panel.values, "listed": alive, "quoted": quoted, "tradable": tradable,
        "market": panel.market, "timezone": panel.timezone,
        "delist_after": policies.delist_after,
    }  # fmt: skip
    made_of = _without_empty(made_of, policies, ledger)
    made_of = _without_rows(made_of, panel, policies)
    if not made_of["assets"] or not len(made_of["times"]):
        ledger.raise_errors()
        refuse("empty", "nothing is left after all that was asked to be left out")
    made_of["times"] = made_of["times"].astype("datetime64[ns]")
    return {**made_of, **{name: sealed(made_of[name]) for name in (*MASKED, "times")}}


def _table_of_listings(panel: Assembled, options: Options) -> tuple[Bools, Bools]:
    """Where the user's table says that assets are listed, and which assets it names."""
    if panel.listings is not None:
        return panel.listings, np.ones(len(panel.assets), np.bool_)
    table = options.listing or {}
    listed = np.ones(panel.present.shape, np.bool_)
    for place, asset in enumerate(panel.assets):
        first, last = table.get(asset, (None, None))
        if first is not None:
            listed[:, place] &= panel.times >= nanoseconds(first, options.timezone)
        if last is not None:
            listed[:, place] &= panel.times <= nanoseconds(last, options.timezone)
    return listed, np.array([asset in table for asset in panel.assets])


def _alive(panel: Assembled, policies: Policies, named: Bools, ledger: Ledger) -> Bools:
    """Where assets are listed, as far as a column of the source tells, or else its rows."""
    if "listed" in panel.masks:
        # In a row without the asset, it is what it was said to be last.
        rows = np.arange(len(panel.present))[:, None]
        last = np.maximum.accumulate(np.where(panel.present, rows, -1), axis=0)
        said = np.take_along_axis(panel.masks["listed"], np.maximum(last, 0), axis=0)
        return said & (last >= 0)
    rule = policies.delist_after
    if rule is None:
        return lifetimes(panel.present)
    times = panel.times.astype("datetime64[ns]")
    alive = lifetimes(panel.present, rule, Calendar(times, panel.timezone).day_numbers)
    judged = panel.present[:, ~named], alive[:, ~named]
    names = [name for name, told in zip(panel.assets, named, strict=True) if not told]
    for found in inferred_delistings(*judged, times, names, rule):
        ledger.add(found)
    return alive


def _quoted(panel: Assembled, verdict: Verdict) -> Bools:
    quoted = panel.present & ~verdict.halted
    for place, name in enumerate(panel.fields):
        if name in PRICE_FIELDS or not set(panel.fields) & set(PRICE_FIELDS):
            quoted &= np.isfinite(panel.values[:, :, place])
    for mask in ("listed", "quoted"):
        quoted &= panel.masks.get(mask, np.True_)
    return quoted


def _forward_fill(
    panel: Assembled, fill: Fill, alive: Bools, policies: Policies, ledger: Ledger
) -> Bools:
    """Repeat the last value, as far as the limit and the listing allow."""
    column = panel.values[:, :, fill.place]
    rows = np.arange(len(column))[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(column), -1, rows), axis=0)
    holes = fill.holes & (panel.present | (fill.kind is None))
    near = rows - last <= (policies.fill_limit or len(column))
    filled: Bools = holes & (last >= 0) & near & alive
    at, asset = np.nonzero(filled)
    column[at, asset] = column[last[at, asset], asset]
    if fill.kind is not None:
        name = panel.fields[fill.place]
        note(panel, ledger, fill.kind, "forward_fill", filled, name, column)
        left = holes & ~filled
        note(panel, ledger, fill.kind, "halt", left, name, "no value, and none to repeat")
    return filled


def _without_empty(made_of: dict[str, Any], policies: Policies, ledger: Ledger) -> dict[str, Any]:
    """Leave out assets that are never quoted."""
    quotes = made_of["quoted"].any(axis=0)
    empty = [name for name, some in zip(made_of["assets"], quotes, strict=True) if not some]
    for asset in empty:
        ledger.add(Problem("empty", "not a single quote", asset, policy=policies.empty))
    if not empty or policies.empty == "error":
        return made_of
    left = {name: made_of[name][:, quotes] for name in MASKED}
    names = tuple(name for name in made_of["assets"] if name not in empty)
    return {**made_of, **left, "assets": names}


def _without_rows(made_of: dict[str, Any], panel: Assembled, policies: Policies) -> dict[str, Any]:
    """Leave out times without a row, or without a row of every asset if the user says so."""
    chosen = [panel.assets.index(name) for name in made_of["assets"]]
    present = panel.present if len(chosen) == len(panel.assets) else panel.present[:, chosen]
    kept = present.all(axis=1) if policies.calendars == "intersection" else present.any(axis=1)
    if kept.all():
        return made_of
    cut = {name: made_of[name][kept] for name in (*MASKED, "times")}
    market = {name: series[kept] for name, series in made_of["market"].items()}
    return {**made_of, **cut, "market": market}


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """An array that nobody else has, so that nobody can write into it and none need be copied."""
    array.flags.writeable = False
    return array
