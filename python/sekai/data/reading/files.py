"""Row sources of CSV and Parquet files, and the metadata of panels in Parquet."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from sekai.data.calendar import Frequency
from sekai.data.problems import Problem
from sekai.data.reading.decoding import arrow, column_kind, compute
from sekai.data.reading.options import ASSET_NAMES, MASKS, TIME_NAMES, Columns, Options, reject
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from sekai.data.market_data import MarketData
    from sekai.data.reading.assemble import ProblemLog

KEYS = (*TIME_NAMES, *ASSET_NAMES, *MASKS)
PARQUET_SUFFIXES = (".parquet", ".pq")
CSV_SUFFIXES = (".csv", ".csv.gz")
FILE_NAME = "the file's name"
"""Virtual column with the name of the file."""
KEY = b"sekai.market_data"
VERSION = 2
UNNAMED = re.compile(r"|None|__index_level_\d+__|Unnamed: \d+(_level_\d+)?").fullmatch
"""Names that pandas, polars and CSV files give to an index without a name."""
MARKET_PREFIX = "market/"
"""Prefix of columns of market-wide series: a field may have the same name."""


def files_of(path: str | os.PathLike[str], suffixes: Sequence[str]) -> tuple[Path, list[Path]]:
    """Root folder and files of a path, sorted by name."""
    folder = Path(path)
    if folder.is_file():
        return folder.parent, [folder]
    if not folder.is_dir():
        raise FileNotFoundError(f"no file or folder {str(path)!r}")
    files = [
        file
        for file in folder.rglob("*")
        if file.name.lower().endswith(tuple(suffixes))
        and file.is_file()
        # Other programs keep metadata beside data in files and folders with such names.
        and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    if not files:
        reject("file", f"no file with suffix {' or '.join(suffixes)}", str(folder))
    return folder, sorted(files, key=lambda file: file.relative_to(folder).as_posix())


def constants_of(root: Path, file: Path, suffixes: Sequence[str]) -> dict[str, str]:
    """Columns from the path of a file: `symbol=AAPL/x.parquet` has a column symbol."""
    name = next(
        (file.name[: -len(end)] for end in suffixes if file.name.lower().endswith(end)), file.name
    )
    constants = {FILE_NAME: name}
    for part in file.relative_to(root).parts[:-1]:
        key, equals, value = part.partition("=")
        if equals:
            constants[unquote(key)] = unquote(value)
    return constants


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Convert errors of Arrow to a `DataError` that names the file."""
    pa = arrow()
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError) as error:
        if isinstance(error, PermissionError | FileNotFoundError):
            raise
        reject("file", f"file cannot be read: {str(error).splitlines()[0]}", str(file))


@dataclass(frozen=True, slots=True)
class SourcePart:
    """File or table before its rows are read."""

    schema: Any
    """Arrow schema."""
    file: str | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    """Columns with one value in all rows, such as partition folders."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Batch of rows of a part."""

    table: Any
    """Arrow table or record batch."""
    part: SourcePart


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows and columns to read, which lets a source skip others early.

    A source may return more rows; they are filtered when they are decoded.
    """

    columns: Sequence[str]
    time: str
    asset: str
    assets: Sequence[str] | None = None
    start: int | None = None
    """Nanoseconds in UTC, a day and `known_after` before the first row."""
    stop: int | None = None
    """Nanoseconds in UTC, a day after the last row."""


class RowSource(Protocol):
    """Interface of sources whose parts can be read repeatedly in the same order."""

    @property
    def parts(self) -> Sequence[SourcePart]:
        """Files or tables."""

    @property
    def assets(self) -> Sequence[str]:
        """Assets known without reading rows."""

    def batches(self, selection: Selection) -> Iterator[RowBatch]:
        """Yield the rows in order, without columns that a part lacks."""


def index_columns(parts: Iterable[SourcePart]) -> dict[str, str]:
    """Kind of each column that holds the index of a frame: `time`, `text`, `numbers`, `neither`.

    Pandas lists them in the metadata of a Parquet file; those of other files have no name.
    """
    pa = arrow()
    kinds: dict[str, str] = {}
    for part in parts:
        stored = _pandas_index(part.schema)
        for column in part.schema:
            if column.name in stored or UNNAMED(column.name):
                is_time = pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)
                kinds[column.name] = "time" if is_time else column_kind(column.type)
    return kinds


def add_dropped(columns: Columns, log: ProblemLog, file: str | None) -> None:
    """Report index columns that are not read."""
    for name in columns.dropped:
        message = f"row index {name!r} is not a field; pass fields= or rename= to read it"
        log.add(Problem("column", message, file=file, policy="drop"))


def _pandas_index(schema: Any) -> list[Any]:
    try:
        listed = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return listed if isinstance(listed, list) else []


class CsvSource:
    """CSV files, read once and kept in memory."""

    assets: Sequence[str] = ()

    def __init__(self, path: str | os.PathLike[str], options: Options) -> None:
        root, files = files_of(path, CSV_SUFFIXES)
        keys = {options.time, options.asset, *options.rename}
        self._tables = [read_csv(file, keys - {None}) for file in files]
        self.parts = [
            SourcePart(table.schema, str(file), constants_of(root, file, CSV_SUFFIXES))
            for file, table in zip(files, self._tables, strict=True)
        ]

    def batches(self, selection: Selection) -> Iterator[RowBatch]:
        """Yield one batch per file."""
        for table, part in zip(self._tables, self.parts, strict=True):
            chosen = [name for name in selection.columns if name in table.schema.names]
            yield RowBatch(table.select(chosen), part)


def read_csv(file: Path, text: Any = ()) -> Any:
    """Read a CSV file to an Arrow table.

    Numeric columns are read as float64. Times and names stay text, which keeps UTC offsets and
    leading zeros.
    """
    csv = optional_import("pyarrow.csv", "data", "MarketData.from_csv")
    pa = arrow()
    with readable(file):
        names = _header(file)
        keys = {name for name in names if name in text or name.lower() in KEYS}
        for as_text in (keys, keys | set(filter(UNNAMED, names))):
            types = {name: pa.string() if name in as_text else pa.float64() for name in names}
            with suppress(pa.ArrowInvalid):
                return _parsed(csv, file, types)
        return _parsed(csv, file, {name: pa.string() for name in names})


def _parsed(csv: Any, file: Path, types: Mapping[str, Any]) -> Any:
    convert = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    return csv.read_csv(file, convert_options=convert)


def _header(file: Path) -> list[str]:
    import csv
    import gzip

    opened = gzip.open if file.name.lower().endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig", newline="") as lines:
        names = next(csv.reader(lines), [])
    if not names or len(set(names)) != len(names):
        reject("file", f"header must have unique column names, got {names}", str(file))
    return names


class ParquetSource:
    """Parquet files, read in batches with bounded memory."""

    assets: Sequence[str] = ()

    def __init__(self, path: str | os.PathLike[str], options: Options) -> None:
        self._parquet = optional_import("pyarrow.parquet", "data", "MarketData.from_parquet")
        self._dataset = optional_import("pyarrow.dataset", "data", "MarketData.from_parquet")
        self._batch_rows = options.batch_rows
        root, files = files_of(path, PARQUET_SUFFIXES)
        self._files = files
        self.parts = [
            SourcePart(self._schema(file), str(file), constants_of(root, file, PARQUET_SUFFIXES))
            for file in files
        ]

    def batches(self, selection: Selection) -> Iterator[RowBatch]:
        """Yield the rows in batches."""
        for file, part in zip(self._files, self.parts, strict=True):
            if _is_selected(part, selection):
                with readable(file):
                    for batch in self._scan(file, part, selection):
                        yield RowBatch(batch, part)

    def _schema(self, file: Path) -> Any:
        with readable(file):
            return self._parquet.read_schema(file)

    def _scan(self, file: Path, part: SourcePart, selection: Selection) -> Iterator[Any]:
        columns = [name for name in dict.fromkeys(selection.columns) if name in part.schema.names]
        dataset = self._dataset.dataset(file, format="parquet", schema=part.schema)
        scanner = dataset.scanner(
            columns=columns,
            batch_size=self._batch_rows,
            filter=_filter(part.schema, selection),
            batch_readahead=1,
            fragment_readahead=1,
            # Prefetching a file does not pay off on a local disk.
            fragment_scan_options=self._dataset.ParquetFragmentScanOptions(pre_buffer=False),
        )
        yield from scanner.to_batches()


def _is_selected(part: SourcePart, selection: Selection) -> bool:
    # A partition folder of another asset need not be opened.
    if selection.assets is None or selection.asset in part.schema.names:
        return True
    return part.constants.get(selection.asset) in (None, *selection.assets)


def _filter(schema: Any, selection: Selection) -> Any:
    """Filter that lets Arrow skip row groups."""
    pa = arrow()
    pc = compute()
    conditions = []
    asset_kind = schema.field(selection.asset).type if selection.asset in schema.names else None
    if (
        selection.assets is not None
        and asset_kind is not None
        and column_kind(asset_kind) == "text"
    ):
        conditions.append(pc.field(selection.asset).isin(list(selection.assets)))
    kind = schema.field(selection.time).type if selection.time in schema.names else None
    if kind is not None and pa.types.is_timestamp(kind):
        column = pc.field(selection.time)
        if selection.start is not None:
            conditions.append(column >= pa.scalar(selection.start, pa.timestamp("ns", kind.tz)))
        if selection.stop is not None:
            conditions.append(column < pa.scalar(selection.stop, pa.timestamp("ns", kind.tz)))
    return reduce(and_, conditions) if conditions else None


@dataclass(frozen=True, slots=True)
class PanelMetadata:
    """Metadata of a panel in a Parquet file: all of it but its arrays."""

    assets: tuple[str, ...]
    fields: tuple[str, ...]
    market: tuple[str, ...]
    sectors: dict[str, str]
    timezone: str | None
    frequency: tuple[int, float]
    warm_up: int
    delist_after: int | None
    rows: int

    @classmethod
    def of(cls, data: MarketData) -> PanelMetadata:
        """Metadata of a panel."""
        frequency = (data.frequency.nanoseconds, data.frequency.periods_per_year)
        return cls(
            data.assets,
            data.fields,
            tuple(data.market),
            dict(data.sectors),
            data.timezone,
            frequency,
            data.warm_up,
            data.delist_after,
            len(data),
        )

    @classmethod
    def from_schema(cls, schema: Any, file: str | None = None) -> PanelMetadata | None:
        """Read metadata from a schema; None if sekai did not write it."""
        text = (schema.metadata or {}).get(KEY)
        if text is None:
            return None
        try:
            content = json.loads(text)
            if content.pop("version") != VERSION:
                raise ValueError("written by another version of sekai")
            for name in ("assets", "fields", "market", "frequency"):
                content[name] = tuple(content[name])
            Frequency(*content["frequency"])
            return cls(**content)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            reject("file", f"malformed sekai metadata: {error}", file)

    def metadata(self) -> dict[bytes, bytes]:
        """Metadata as Arrow stores them in a schema."""
        content = {name: getattr(self, name) for name in self.__slots__}
        return {KEY: json.dumps({"version": VERSION, **content}).encode()}
