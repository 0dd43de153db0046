"""Backbones of native programs: MLP, CNN, and encoders and aggregators over assets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sekai.error import SpaceError
from sekai.policy.observations import Slots, slots_of
from sekai.policy.program import (
    Body,
    ProgramBuilder,
    UnsupportedPolicyError,
    backbone_name,
)

__all__ = [
    "AGGREGATORS",
    "BACKBONES",
    "ENCODERS",
    "KERNEL",
    "NATURE_LAYERS",
    "NATURE_PIXELS",
    "SMALL_LAYERS",
    "STRIDE",
    "body_of",
    "channels_first",
    "convolution_sides",
    "require_correlated",
    "require_sectors",
]

NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel size and stride of each layer, for images of at least 36 pixels a side."""

SMALL_LAYERS = ((16, 3, 2), (32, 3, 2))
"""The same for smaller images."""

NATURE_PIXELS = 36

KERNEL, STRIDE = 3, 2
"""Rows of a piece of a window, and the distance of pieces, of the encoder "convolution"."""

MAX_EDGES = 2**24
"""Largest number of edges of a graph."""

Inputs = Mapping[str, int]


def body_of(program: ProgramBuilder, inputs: Inputs, name: str) -> Body:
    """Backbone that the settings name, with weights under `name`.

    Raises:
        UnsupportedPolicyError: the backbone has no native program.
    """
    kind = backbone_name(program.leaves, program.settings)
    if kind not in BACKBONES:
        raise UnsupportedPolicyError(f"backbone {kind!r}")
    return BACKBONES[kind](program, inputs, name)


def _mlp(program: ProgramBuilder, inputs: Inputs, name: str) -> Body:
    settings = program.settings
    width = sum(leaf.width for leaf in program.leaves.values())
    joined = program.joined(list(inputs.values()))
    whole = program.layers(joined, f"{name}.body", width, settings.net_arch)
    return Body(whole, settings.net_arch[-1] if settings.net_arch else width)


def _cnn(program: ProgramBuilder, inputs: Inputs, name: str) -> Body:
    settings, leaves = program.settings, program.leaves
    images = [key for key, leaf in leaves.items() if leaf.is_measured and len(leaf.shape) == 3]
    if not images:
        raise SpaceError(f"backbone 'cnn' needs an image in the observation, got {list(leaves)}")
    parts = [
        _image(program, inputs[key], f"{name}.encoders.{index}", leaves[key].shape)
        for index, key in enumerate(images)
    ]
    rest = [key for key in leaves if key not in images]
    parts += [inputs[key] for key in rest]
    width = settings.cnn_features * len(images) + sum(leaves[key].width for key in rest)
    whole = program.layers(program.joined(parts), f"{name}.body", width, settings.net_arch)
    return Body(whole, settings.net_arch[-1] if settings.net_arch else width)


def _image(program: ProgramBuilder, image: int, name: str, shape: tuple[int, ...]) -> int:
    settings = program.settings
    is_last = shape[2] <= shape[0]
    channels, *sides = channels_first(shape, is_last)
    if not is_last:
        image = program.add("transpose", input=image, rows=channels, columns=math.prod(sides))
    sizes = settings.cnn_layers or (NATURE_LAYERS if min(sides) >= NATURE_PIXELS else SMALL_LAYERS)
    for index, (count, kernel, stride) in enumerate(sizes):
        reduced = convolution_sides(sides, kernel, stride, shape)
        layer = f"{name}.{2 * index}"
        weight = program.weights.read(f"{layer}.weight", (count, channels, kernel, kernel))
        image = program.add(
            "convolution",
            input=image,
            sides=sides,
            kernel=kernel,
            stride=stride,
            # Images are by pixel here, by channel in torch.
            weight=weight.transpose(0, 2, 3, 1).reshape(count, -1),
            bias=program.weights.read(f"{layer}.bias", (count,)),
        )
        image, sides, channels = program.add("relu", input=image), reduced, count
    pixels = math.prod(sides)
    flat = program.add("transpose", input=image, rows=pixels, columns=channels)
    layer = f"{name}.{2 * len(sizes) + 1}"
    features = program.linear(flat, layer, channels * pixels, settings.cnn_features)
    return program.add("relu", input=features)


def channels_first(shape: tuple[int, ...], is_last: bool) -> tuple[int, int, int]:
    """Shape of an image as channels, height and width."""
    first, second, third = shape
    return (third, first, second) if is_last else (first, second, third)


def convolution_sides(
    sides: Sequence[int], kernel: int, stride: int, shape: tuple[int, ...]
) -> list[int]:
    """Sides of an image after a convolution."""
    if min(sides) < kernel:
        raise ValueError(
            f"cnn_layers do not fit an image of shape {shape}: a kernel of {kernel} needs at least "
            f"{kernel} pixels and {min(sides)} are left; use smaller kernels or strides"
        )
    return [(side - kernel) // stride + 1 for side in sides]


def _asset_backbone(aggregator: str) -> Callable[[ProgramBuilder, Inputs, str], Body]:
    def make(program: ProgramBuilder, inputs: Inputs, name: str) -> Body:
        slots = slots_of(program.leaves, program.settings)
        if slots is None:
            raise ValueError(f"backbone {aggregator!r} needs assets in the observation")
        return _assets(program, inputs, name, slots, aggregator)

    return make


def _assets(
    program: ProgramBuilder, inputs: Inputs, name: str, slots: Slots, aggregator: str
) -> Body:
    width, mask = program.settings.width, program.mask(slots.mask)
    windows = inputs[slots.features]
    if slots.axis == 1:
        windows = program.add("transpose", input=windows, rows=slots.times, columns=slots.count)
    windows = program.zero_unused(windows, mask)
    own, beside = _held(program, inputs, slots, mask)
    encoder = program.settings.encoder
    if encoder not in ENCODERS:
        raise UnsupportedPolicyError(f"encoder {encoder!r}")
    values = ENCODERS[encoder](program, windows, own, slots, f"{name}.read")
    account = None
    numbers = sum(program.leaves[key].width for key in _others(program, slots)) + slots.has_cash
    if numbers:
        account = program.linear(program.joined(beside), f"{name}.account", numbers, width)
        values = program.add("add", input=values, other=account)
    values = program.zero_unused(values, mask)
    values = AGGREGATORS[aggregator](program, values, windows, slots, f"{name}.aggregate")
    values = program.zero_unused(values, mask)
    whole = program.add("mean", input=values, items=slots.count, mask=mask)
    if account is not None:
        whole = program.joined([whole, account])
    parts = 1 if account is None else 2
    whole = program.layers(whole, f"{name}.join", parts * width, (width,))
    return Body(whole, width, values, slots.count, mask)


def _others(program: ProgramBuilder, slots: Slots) -> list[str]:
    """Leaves beside those of the assets."""
    own = (slots.features, slots.mask, slots.weights)
    return [name for name in program.leaves if name not in own]


def _held(
    program: ProgramBuilder, inputs: Inputs, slots: Slots, mask: int | None
) -> tuple[int | None, list[int]]:
    """Weights held of each asset, and the other inputs."""
    rest = [inputs[name] for name in _others(program, slots)]
    if slots.weights is None:
        return None, rest
    held, count = inputs[slots.weights], slots.count
    weights = held
    if slots.has_cash:
        weights = program.add("slice", input=held, items=1, start=0, width=count)
        rest.append(program.add("slice", input=held, items=1, start=count, width=1))
    weights = program.zero_unused(weights, mask)
    return program.add("scale_by_root_count", input=weights, mask=mask), rest


def _mlp_encoder(
    program: ProgramBuilder, windows: int, own: int | None, slots: Slots, name: str
) -> int:
    settings = program.settings
    width = settings.width
    first = program.linear(windows, f"{name}.window", slots.times * slots.channels, width)
    if own is not None:
        held = program.linear(own, f"{name}.own", 1, width, has_bias=False)
        first = program.add("add", input=first, other=held)
    hidden = (width,) * (settings.encoder_layers - 1)
    return program.layers(program.activate(first), f"{name}.rest", width, hidden)


def _gru_encoder(
    program: ProgramBuilder, windows: int, own: int | None, slots: Slots, name: str
) -> int:
    narrow = -(-program.settings.width // 2)
    read = program.weights.read
    memory = program.add(
        "gru",
        input=windows,
        items=slots.count,
        input_weight=read(f"{name}.memory.weight_ih_l0", (3 * narrow, slots.channels)),
        hidden_weight=read(f"{name}.memory.weight_hh_l0", (3 * narrow, narrow)),
        input_bias=read(f"{name}.memory.bias_ih_l0", (3 * narrow,)),
        hidden_bias=read(f"{name}.memory.bias_hh_l0", (3 * narrow,)),
    )
    return _with_own(program, memory, own, narrow, slots, name)


def _convolution_encoder(
    program: ProgramBuilder, windows: int, own: int | None, slots: Slots, name: str
) -> int:
    narrow, wide = -(-program.settings.width // 2), slots.channels
    rows, times, layer = windows, slots.times, 0
    while times > 1 or not layer:
        shape = {"items": slots.count, "times": times, "kernel": KERNEL, "stride": STRIDE}
        pieces = program.add("pieces", input=rows, **shape)
        filtered = program.linear(pieces, f"{name}.filters.{layer}", KERNEL * wide, narrow)
        rows = program.activate(filtered)
        wide, times, layer = narrow, -(-times // STRIDE), layer + 1
    return _with_own(program, rows, own, narrow, slots, name)


def _with_own(
    program: ProgramBuilder, encoded: int, own: int | None, narrow: int, slots: Slots, name: str
) -> int:
    """Last layer of an encoder, which reads the account numbers of the asset as well."""
    width = program.settings.width
    if own is None:
        return program.layers(encoded, f"{name}.join", narrow, (width,))
    joined = program.joined([encoded, own], slots.count)
    return program.layers(joined, f"{name}.join", narrow + 1, (width,))


def _pooling(kind: str) -> Callable[[ProgramBuilder, int, int, Slots, str], int]:
    def make(program: ProgramBuilder, values: int, windows: int, slots: Slots, name: str) -> int:
        width, mask = program.settings.width, program.mask(slots.mask)
        for layer in range(program.settings.aggregator_layers):
            pooled = program.add(kind, input=values, items=slots.count, mask=mask)
            everyone = program.linear(pooled, f"{name}.all.{layer}", width, width, has_bias=False)
            own = program.linear(values, f"{name}.own.{layer}", width, width)
            change = program.activate(program.add("add", input=own, other=everyone))
            values = program.add("add", input=values, other=change)
        return values

    return make


def _attention(program: ProgramBuilder, values: int, windows: int, slots: Slots, name: str) -> int:
    settings = program.settings
    width, mask = settings.width, program.mask(slots.mask)
    for layer in range(settings.aggregator_layers):
        block = f"{name}.blocks.{layer}"
        normed = program.layer_norm(values, f"{block}.attention_norm", width)
        queries = program.linear(normed, f"{block}.qkv", width, 3 * width)
        attended = program.add(
            "attention", input=queries, items=slots.count, heads=settings.heads, mask=mask
        )
        change = program.linear(attended, f"{block}.project", width, width)
        values = program.add("add", input=values, other=change)
        normed = program.layer_norm(values, f"{block}.feed_forward_norm", width)
        hidden = program.linear(normed, f"{block}.feed_forward.0", width, 2 * width)
        hidden = program.activate(hidden)
        change = program.linear(hidden, f"{block}.feed_forward.2", 2 * width, width)
        values = program.add("add", input=values, other=change)
    return values


def _graph(program: ProgramBuilder, values: int, windows: int, slots: Slots, name: str) -> int:
    width = program.settings.width
    near = _neighbours(program, windows, slots, name)
    for layer in range(program.settings.aggregator_layers):
        block = f"{name}.graph_layers.{layer}"
        known = program.layer_norm(values, f"{block}.before", width)
        mixed = program.add("mix", near=near, input=known, items=slots.count)
        others = program.linear(mixed, f"{block}.others", width, width, has_bias=False)
        own = program.linear(known, f"{block}.own", width, width)
        change = program.activate(program.add("add", input=own, other=others))
        values = program.add("add", input=values, other=change)
    return values


def _neighbours(program: ProgramBuilder, windows: int, slots: Slots, name: str) -> int:
    settings, mask = program.settings, program.mask(slots.mask)
    if slots.count**2 > MAX_EDGES:
        raise ValueError(f"a graph of {slots.count} slots has more than {MAX_EDGES} edges")
    if settings.graph == "sectors":
        sectors = np.array(require_sectors(slots, settings.sectors), dtype=object)
        is_same = (sectors[:, None] == sectors[None, :]) & (sectors != "")
        return program.add("neighbours", near=is_same.astype(np.float32), mask=mask)
    require_correlated(slots, settings.correlated_feature)
    slope, offset = program.weights.read(f"{name}.nearness", (2,)).tolist()
    return program.add(
        "correlations",
        input=windows,
        items=slots.count,
        times=slots.times,
        channel=settings.correlated_feature,
        slope=slope,
        offset=offset,
        mask=mask,
    )


def require_sectors(slots: Slots, sectors: tuple[str, ...]) -> tuple[str, ...]:
    """Sectors of the slots; raise unless there is one for each."""
    if len(sectors) != slots.count:
        raise ValueError(
            f"graph='sectors' needs a sector for each of {slots.count} slots, '' where there is "
            f"none; sectors has {len(sectors)}"
        )
    return sectors


def require_correlated(slots: Slots, feature: int) -> None:
    """Raise unless windows have a feature whose correlations can be computed."""
    if slots.times < 2:
        raise ValueError(
            f"graph='correlation' needs windows of at least 2 rows, got {slots.times}: use "
            "graph='sectors'"
        )
    if feature >= slots.channels:
        raise ValueError(
            f"correlated_feature must be one of {slots.channels} features, counted from 0, was "
            f"{feature}"
        )


AGGREGATORS = {
    "attention": _attention,
    "graph": _graph,
    "mean": _pooling("mean"),
    "max": _pooling("max"),
}

BACKBONES: dict[str, Callable[[ProgramBuilder, Inputs, str], Body]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    **{name: _asset_backbone(name) for name in AGGREGATORS},
}
"""Backbones that have a native program."""

ENCODERS = {"mlp": _mlp_encoder, "convolution": _convolution_encoder, "gru": _gru_encoder}
