"""Places for assets that are not known yet, and the assets that come into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.data import Bar, MarketData

__all__ = ["asset_alone", "padded", "with_asset", "with_slots"]


def with_slots(data: MarketData, slots: int) -> MarketData:
    """The data with so many more assets, none of which was ever listed."""
    if not isinstance(data, MarketData):
        raise TypeError(
            f"data must be a MarketData, was {data!r}: see MarketData.from_parquet, from_csv and "
            f"from_frame"
        )
    if not slots:
        return data
    first = len(data.assets)
    names = [f"slot_{place}" for place in range(first, first + slots)]
    return data.replace(
        assets=(*data.assets, *names),
        values=_wider(data.values, slots, np.nan),
        **{name: _wider(getattr(data, name), slots, False) for name in MASKS},
    )


def with_asset(data: MarketData, place: int, asset: MarketData) -> MarketData:
    """The data with an asset in a place that was free."""
    values = data.values.copy()
    values[:, place] = asset.values[:, 0]
    masks = {name: getattr(data, name).copy() for name in MASKS}
    for name, mask in masks.items():
        mask[:, place] = getattr(asset, name)[:, 0]
    names = (*data.assets[:place], *asset.assets, *data.assets[place + 1 :])
    sectors = {**data.sectors, **asset.sectors}
    return data.replace(assets=names, values=values, sectors=sectors, **masks)


def asset_alone(name: str, given: MarketData, like: MarketData) -> MarketData:
    """One asset of the given data, with the fields of other data and in the same rows."""
    asset = given.select([name], like.fields)
    if not np.array_equal(asset.times, like.times):
        raise ValueError(
            f"{name} with the {len(like)} rows that are known, up to {like.times[-1]}, was wanted, "
            f"found {len(asset)} rows up to {asset.times[-1:]} or other times"
        )
    return asset


def padded(bar: Bar, slots: int) -> Bar:
    """The bar with nothing in places that are still free."""
    if not slots:
        return bar
    masks = {
        name: None if mask is None else _wider(np.asarray(mask)[None], slots, False)[0]
        for name, mask in bar.masks().items()
    }
    values = _wider(np.asarray(bar.values, np.float64)[None], slots, np.nan)[0]
    return Bar(bar.time, values, market=bar.market, **masks)


MASKS = ("listed", "quoted", "tradable")


def _wider(array: Any, slots: int, fill: Any) -> Any:
    """The array with more places along its second axis."""
    rest = np.full((len(array), slots, *array.shape[2:]), fill, array.dtype)
    return np.concatenate([array, rest], axis=1)
