"""Logs of steps and episodes: collected in the env, written beside the vector env."""

from sekai.compose.logs.collector import LogCollector, LogLevel
from sekai.compose.logs.table_writers import CsvWriter, ParquetWriter
from sekai.compose.logs.trackers import MlflowWriter, TensorBoardWriter
from sekai.compose.logs.writer import ConsoleWriter, LogBuffer, LogWriter

__all__ = [
    "ConsoleWriter",
    "CsvWriter",
    "LogBuffer",
    "LogCollector",
    "LogLevel",
    "LogWriter",
    "MlflowWriter",
    "ParquetWriter",
    "TensorBoardWriter",
]
