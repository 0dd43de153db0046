"""Simulator, interpreters and reward composed into an environment."""

from sekai.compose.attached import Attached
from sekai.compose.aux_info import AuxiliaryInfoCollector
from sekai.compose.data_queue import DataQueue
from sekai.compose.env_wrapper import EnvWrapper
from sekai.compose.finite.kinds import (
    FiniteDummyVectorEnv,
    FiniteShmemVectorEnv,
    FiniteSubprocVectorEnv,
)
from sekai.compose.finite.vector_env import FiniteVectorEnv
from sekai.compose.finite.vectorize import UnknownEnvTypeError, vectorize_env
from sekai.compose.interpreter import ActionInterpreter, Interpreter, StateInterpreter
from sekai.compose.logs.buffer import LogBuffer
from sekai.compose.logs.collector import LogCollector
from sekai.compose.logs.console_writer import ConsoleWriter
from sekai.compose.logs.csv_writer import CsvWriter
from sekai.compose.logs.level import LogLevel
from sekai.compose.logs.mlflow_writer import MlflowWriter
from sekai.compose.logs.parquet_writer import ParquetWriter
from sekai.compose.logs.tensorboard_writer import TensorBoardWriter
from sekai.compose.logs.writer import LogWriter
from sekai.compose.nan_observation import check_nan_observation, generate_nan_observation
from sekai.compose.reward import Reward, RewardCombination, RewardError
from sekai.compose.seeds import ExhaustedError
from sekai.compose.simulator import Simulator
from sekai.compose.status import EnvWrapperStatus
from sekai.compose.validation import SpaceValidationError, validate_space

__all__ = [
    "ActionInterpreter",
    "Attached",
    "AuxiliaryInfoCollector",
    "ConsoleWriter",
    "CsvWriter",
    "DataQueue",
    "EnvWrapper",
    "EnvWrapperStatus",
    "ExhaustedError",
    "FiniteDummyVectorEnv",
    "FiniteShmemVectorEnv",
    "FiniteSubprocVectorEnv",
    "FiniteVectorEnv",
    "Interpreter",
    "LogBuffer",
    "LogCollector",
    "LogLevel",
    "LogWriter",
    "MlflowWriter",
    "ParquetWriter",
    "Reward",
    "RewardCombination",
    "RewardError",
    "Simulator",
    "SpaceValidationError",
    "StateInterpreter",
    "TensorBoardWriter",
    "UnknownEnvTypeError",
    "check_nan_observation",
    "generate_nan_observation",
    "validate_space",
    "vectorize_env",
]
