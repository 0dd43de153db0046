"""Hostile calls of the native core, made in a child process that must survive all of them.

`python -m tests.native.hostile calls SEED ROUNDS`, `... states SEED ROUNDS` or `... sizes`. Every
call is written down before it is made, so that a process that dies names its last one. What is
raised must be an error that a caller can name: a panic is none, and a call that hangs is killed.
"""

from __future__ import annotations

import inspect
import json
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import quant_gym_rs._core as core
from sekai.error import SekaiError
from tests.native.subjects import FUNCTIONS, GOOD, HARMLESS, OBJECTS, SETTINGS, SIZED, SIZES, use

REFUSALS = (
    ValueError,
    TypeError,
    MemoryError,
    OverflowError,
    IndexError,
    KeyError,
    AttributeError,
    SekaiError,
)
"""Allowed types of refusals. A `PanicException` is a `BaseException`, and none of them."""

ADDRESS_SPACE = 4 << 30
"""Bytes that the child may map: an allocation without a check fails here as on a full machine."""

CALL_SECONDS = 30.0
"""Time limit of a call: the signal ends the process where the call does not."""

LONG_CALLS = {("Market", "tick"), ("Market", "record_columns")}
"""Calls that last as long as their caller says."""

FAILURES: list[str] = []


def attempt(label: str, call: Callable[[], object]) -> object:
    """Make a call, and write down what it must not do."""
    sys.stderr.write(label + "\n")
    sys.stderr.flush()
    signal.setitimer(signal.ITIMER_REAL, CALL_SECONDS)
    try:
        return call()
    except REFUSALS as refusal:
        return refusal
    except BaseException as error:
        FAILURES.append(f"{label}: {type(error).__name__}: {error}")
        return error


def call_sizes() -> None:
    """Ask for more than there is, and for less than nothing."""
    for name, call in SIZED.items():
        for size in SIZES:
            answer = attempt(f"{name} of {size}", partial(call, size))
            is_refused = isinstance(answer, (ValueError, TypeError, MemoryError, OverflowError))
            is_refused |= isinstance(answer, (IndexError, SekaiError))
            if size >= 2**31 and not is_refused and name not in HARMLESS:
                FAILURES.append(f"{name} of {size} was taken")


def hostile_values(rng: np.random.Generator) -> Iterator[Any]:
    """Values that no caller should pass, for ever."""
    shapes: list[tuple[int, ...]] = [(), (0,), (1,), (2,), (3,), (7,), (2, 0), (0, 3), (2, 54)]
    shapes += [(3, 2), (1, 1, 1), (0, 2, 2), (3, 2, 0), (3, 2, 1), (2, 2, 2, 2), (6, 3), (3, 5)]
    dtypes = [np.float64, np.float32, np.int64, np.int8, np.uint64, np.bool_, np.complex128]
    dtypes += [np.float16, object]
    numbers: list[Any] = [
        0,
        1,
        -1,
        2,
        3,
        7,
        2**31,
        2**40,
        2**62,
        2**63,
        2**64,
        2**200,
        -(2**63),
        0.5,
    ]
    numbers += [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 1j, True]
    others: list[Any] = [
        None,
        "",
        "x",
        "sum",
        b"",
        b"x" * 40,
        [],
        [0],
        [1, 0],
        [[1]],
        (),
        {},
        {"a": 1},
    ]
    others += [object(), slice(None), core.Free(), np.float64("nan"), np.int64(-1), [None]]
    others += [np.complex128(0.5 + 1j), np.array([2], np.uint8).view(np.bool_)]
    others += [{"native": b""}, {"count": 1, "mean": [1.0], "squares": [-1.0]}, "\ud800"]
    plain = [*numbers, *others]
    while True:
        kind = rng.integers(4)
        if kind == 0:
            yield plain[rng.integers(len(plain))]
        elif kind == 1:
            yield hostile_array(rng, shapes[rng.integers(len(shapes))], dtypes)
        elif kind == 2:
            made = OBJECTS[list(OBJECTS)[rng.integers(len(OBJECTS))]]
            yield made() if rng.random() < 0.1 else json.loads(SETTINGS)
        else:
            yield [hostile_array(rng, shapes[rng.integers(len(shapes))], dtypes)]


def hostile_array(rng: np.random.Generator, shape: tuple[int, ...], dtypes: list[Any]) -> Any:
    dtype = np.dtype(dtypes[rng.integers(len(dtypes))])
    array = rng.normal(0, 3, shape).astype(dtype) if dtype.kind != "O" else np.full(shape, None)
    array = np.asarray(array)
    twist = rng.integers(8)
    if twist == 0 and dtype.kind == "f" and array.size:
        array.flat[rng.integers(array.size)] = [np.nan, np.inf, 1e300][rng.integers(3)]
    elif twist == 1:
        array.setflags(write=False)
    elif twist == 2:
        array = array.T
    elif twist == 3:
        array = np.broadcast_to(array, (2, *array.shape))
    elif twist == 4:
        array = array[..., ::-1] if array.ndim else array
    elif twist == 5 and dtype.kind != "O":
        array = array.astype(dtype.newbyteorder())
    elif twist == 6 and dtype.itemsize > 1 and dtype.kind != "O":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        array = np.frombuffer(raw, dtype, count=array.size).reshape(array.shape)
    return array


def callables() -> list[tuple[str, str | None]]:
    """Functions and classes of the core, and the methods of its objects."""
    found: list[tuple[str, str | None]] = [(name, None) for name in FUNCTIONS]
    for name, make in OBJECTS.items():
        kind = type(make())
        names = [name for name in dir(kind) if not name.startswith("__")]
        found += [(name, method) for method in names if callable(getattr(kind, method))]
    return [call for call in found if call not in LONG_CALLS]


def twisted(argument: Any, values: Iterator[Any], rng: np.random.Generator) -> Any:
    """An argument much like the one that is taken, or nothing like it."""
    if isinstance(argument, dict) and argument and rng.random() < 0.8:
        key = list(argument)[rng.integers(len(argument))]
        return {**argument, key: twisted(argument[key], values, rng)}
    if isinstance(argument, list) and argument and rng.random() < 0.7:
        place = int(rng.integers(len(argument)))
        changed = list(argument)
        changed[place] = twisted(argument[place], values, rng)
        return changed if rng.random() < 0.8 else changed[:place]
    if isinstance(argument, str) and argument.startswith("{") and rng.random() < 0.8:
        return json.dumps(twisted_settings(json.loads(argument), rng))
    if isinstance(argument, np.ndarray) and rng.random() < 0.8:
        return twisted_array(argument, rng)
    return next(values)


def twisted_settings(settings: Any, rng: np.random.Generator) -> Any:
    if isinstance(settings, dict) and settings:
        key = list(settings)[rng.integers(len(settings))]
        return {**settings, key: twisted_settings(settings[key], rng)}
    if isinstance(settings, list) and settings and rng.random() < 0.8:
        return [twisted_settings(settings[0], rng), *settings[1:]]
    choices: list[Any] = [
        0,
        -1,
        1,
        2**31,
        2**40,
        2**62,
        1e300,
        -1e300,
        0.5,
        None,
        [],
        {},
        "x",
        1e-300,
        999,
    ]
    return choices[rng.integers(len(choices))]


def twisted_array(array: Any, rng: np.random.Generator) -> Any:
    if array.ndim == 0:
        return array
    changed = array.copy()
    kind = rng.integers(5)
    if kind == 0 and changed.size:
        numbers = [np.nan, np.inf, -np.inf, -1, 0, 1e300, -1e300, 2**40, 2**62, 7]
        with np.errstate(all="ignore"):
            chosen = np.array(numbers[rng.integers(len(numbers))]).astype(changed.dtype)
        changed.flat[rng.integers(changed.size)] = chosen
    elif kind == 1:
        changed = changed[:0]
    elif kind == 2:
        changed = np.concatenate([changed, changed])
    elif kind == 3:
        changed = np.repeat(changed, 2, axis=0)[::2]
    else:
        changed = changed[..., :0]
    return changed


def changed_arguments(
    name: str, method: str | None, values: Iterator[Any], rng: np.random.Generator
) -> list[Any]:
    arguments = GOOD[name, method]()
    for _ in range(int(rng.integers(3))):
        place = int(rng.integers(len(arguments)))
        arguments[place] = twisted(arguments[place], values, rng)
    return arguments


def any_arguments(
    function: Callable[..., Any], values: Iterator[Any], rng: np.random.Generator
) -> list[Any]:
    """Random arguments, as many as the function takes or one more or less."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return []
    count = len([one for one in parameters if one.kind is not one.KEYWORD_ONLY])
    count += int(rng.integers(-1, 2)) if rng.random() < 0.1 else 0
    return [next(values) for _ in range(max(0, count))]


def fuzz_calls(seed: int, rounds: int) -> None:
    """Call everything with invalid arguments, and then use it normally."""
    rng = np.random.default_rng(seed)
    values = hostile_values(rng)
    choices = [*callables(), *GOOD, *GOOD]
    objects = {name: make() for name, make in OBJECTS.items()}
    for number in range(rounds):
        name, method = choices[rng.integers(len(choices))]
        function = FUNCTIONS[name] if method is None else getattr(objects[name], method)
        if (name, method) in GOOD and rng.random() < 0.8:
            arguments = changed_arguments(name, method, values, rng)
        else:
            arguments = any_arguments(function, values, rng)
        label = f"{number}: {name}.{method}({', '.join(map(described, arguments))})"
        attempt(label, partial(function, *arguments))
        if method is not None:
            attempt(f"{label}, then use", partial(use, objects[name]))
        if rng.random() < 0.05:
            name = list(OBJECTS)[rng.integers(len(OBJECTS))]
            objects[name] = OBJECTS[name]()


def described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array{value.shape}:{value.dtype}"
    return repr(value).replace("\n", "")[:60]


def checksum(data: bytes) -> int:
    """FNV-1a of 64 bits, which seals states."""
    total = 0xCBF29CE484222325
    for byte in data:
        total = ((total ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return total


def resealed(state: bytes, body: bytes) -> bytes:
    """The state with another body, its length and checksum made to fit."""
    head = state[:8] + len(body).to_bytes(8, "little") + body
    return head + checksum(head).to_bytes(8, "little")


def mutated(body: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(body)
    kind = rng.integers(6)
    place = int(rng.integers(len(changed)))
    if kind == 0:
        changed[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        changed[place] = int(rng.integers(256))
    elif kind == 2:
        words = [0, 2**63, 2**64 - 1, 0x7FF0000000000000, 0x7FF8000000000000, 1]
        word = words[rng.integers(len(words))].to_bytes(8, "little")
        changed[place : place + 8] = word
        del changed[len(body) :]
    elif kind == 3:
        del changed[place : place + int(rng.integers(1, 9))]
    elif kind == 4:
        changed[place:place] = bytes(int(rng.integers(1, 9)))
    else:
        for _ in range(3):
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)


def book_inside(body: bytes, rng: np.random.Generator) -> bytes | None:
    """The same body with the book in it changed and sealed again, which is what a forger does."""
    begin = body.find(b"SKLB")
    if begin < 0:
        return None
    length = int.from_bytes(body[begin + 8 : begin + 16], "little")
    end = begin + 16 + length + 8
    sealed = body[begin:end]
    inner = bytearray(sealed[16:-8])
    inner[int(rng.integers(len(inner)))] = int(rng.integers(256))
    return body[:begin] + resealed(sealed, bytes(inner)) + body[end:]


def sealed_states() -> dict[str, bytes]:
    """The state of each object that has one."""
    states = {}
    for name, make in OBJECTS.items():
        made = make()
        if "Batch" in name:
            states[name] = bytes(made.state_dict()["native"])
        elif hasattr(made, "encode"):
            states[name] = made.encode()
    return states


def load_and_use(name: str, state: bytes) -> None:
    """Take in a state, and go on from it if it was taken."""
    made = OBJECTS[name]()
    if "Batch" in name:
        made.load_state_dict({"native": state})
    else:
        made.decode(state)
    use(made)


def fuzz_states(seed: int, rounds: int) -> None:
    """Load states that somebody changed and sealed again."""
    rng = np.random.default_rng(seed)
    states = sealed_states()
    order: Any = OBJECTS["OrderMatcher"]().__reduce__()
    for number in range(rounds):
        name = [*states, "OrderMatcher"][rng.integers(len(states) + 1)]
        if name == "OrderMatcher":
            forged = mutated(order[1][0], rng)
            label = f"{number}: OrderMatcher.from_bytes({forged.hex()})"
            attempt(label, lambda forged=forged: use(core.OrderMatcher.from_bytes(forged)))  # type: ignore[misc]
            continue
        body = states[name][16:-8]
        inside = book_inside(body, rng) if rng.random() < 0.3 and name != "OrderBook" else None
        forged = resealed(states[name], inside or mutated(body, rng))
        pairs = enumerate(zip(states[name], forged, strict=False))
        place = next((i for i, (old, new) in pairs if i > 15 and old != new), 0)
        attempt(f"{number}: {name} with byte {place} changed", partial(load_and_use, name, forged))


def main(mode: str, *numbers: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if mode == "sizes":
        call_sizes()
    else:
        fuzz = {"calls": fuzz_calls, "states": fuzz_states}[mode]
        fuzz(*map(int, numbers))
    if FAILURES:
        sys.exit("\n".join(["failures:", *FAILURES]))
    sys.stdout.write("alive\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
