"""Which files a path means, and what their names tell."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from sekai.data.reading.columns import refuse
from sekai.data.reading.extras import arrow
from sekai.data.reading.source import FILE_NAME

__all__ = ["CSV_SUFFIXES", "PARQUET_SUFFIXES", "constants_of", "files_of", "readable"]

PARQUET_SUFFIXES = (".parquet", ".pq")
CSV_SUFFIXES = (".csv", ".csv.gz")


def files_of(path: str | os.PathLike[str], suffixes: Sequence[str]) -> tuple[Path, list[Path]]:
    """The folder that names count from, and the files in the order of their names."""
    place = Path(path)
    if place.is_file():
        return place.parent, [place]
    if not place.is_dir():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    found = [
        file
        for file in place.rglob("*")
        if file.name.lower().endswith(tuple(suffixes))
        and file.is_file()
        # Other programs keep notes beside their data in files and folders with such names.
        and not any(part.startswith((".", "_")) for part in file.relative_to(place).parts)
    ]
    if not found:
        refuse("file", f"no file whose name ends in {' or '.join(suffixes)}", str(place))
    return place, sorted(found, key=lambda file: file.relative_to(place).as_posix())


def constants_of(root: Path, file: Path, suffixes: Sequence[str]) -> dict[str, str]:
    """What a file's place tells: `symbol=AAPL/x.parquet` has a column symbol."""
    name = next((file.name[: -len(end)] for end in suffixes if file.name.lower().endswith(end)),
                file.name)  # fmt: skip
    constants = {FILE_NAME: name}
    for part in file.relative_to(root).parts[:-1]:
        key, equals, value = part.partition("=")
        if equals:
            constants[unquote(key)] = unquote(value)
    return constants


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turn what Arrow says of a broken file into an error that names it."""
    pa = arrow()
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError) as error:
        if isinstance(error, PermissionError | FileNotFoundError):
            raise
        refuse("file", f"it cannot be read: {str(error).splitlines()[0]}", str(file))
