"""What is told of steps and episodes: collected in the env, written where the episodes meet."""

from sekai.compose.logs.buffer import LogBuffer
from sekai.compose.logs.collector import LogCollector
from sekai.compose.logs.console_writer import ConsoleWriter
from sekai.compose.logs.csv_writer import CsvWriter
from sekai.compose.logs.level import LogLevel
from sekai.compose.logs.mlflow_writer import MlflowWriter
from sekai.compose.logs.parquet_writer import ParquetWriter
from sekai.compose.logs.tensorboard_writer import TensorBoardWriter
from sekai.compose.logs.writer import LogWriter

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
