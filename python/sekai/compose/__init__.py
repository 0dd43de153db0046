"""Simulator, interpreters and reward composed into an environment."""

from sekai.compat.qlib import QlibConfig, current_qlib, init_qlib
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
from sekai.compose.orders.baselines import TWAP, VWAP, AllAtOnce, AlmgrenChrissPolicy, OracleVWAP
from sekai.compose.orders.categorical_action import CategoricalActionInterpreter
from sekai.compose.orders.costs import OrderCosts
from sekai.compose.orders.current_step import CurrentStepStateInterpreter
from sekai.compose.orders.dummy_interpreter import DummyStateInterpreter
from sekai.compose.orders.features import DayFeatures, StoredFeatures, TickFeatures
from sekai.compose.orders.full_history import FullHistoryStateInterpreter
from sekai.compose.orders.metrics import SAOEMetrics
from sekai.compose.orders.order import DirectionError, Order, OrderDir
from sekai.compose.orders.order_execution import OrderExecution
from sekai.compose.orders.order_execution_config import OrderExecutionConfig
from sekai.compose.orders.order_renderer import OrderRenderer
from sekai.compose.orders.qlib_simulator import SingleAssetOrderExecution
from sekai.compose.orders.rewards import PAPenaltyReward, PPOReward, ShortfallReward
from sekai.compose.orders.run_orders import OrderReport, run_orders
from sekai.compose.orders.simple import SingleAssetOrderExecutionSimple
from sekai.compose.orders.simulated_minutes import SimulatedMinutes
from sekai.compose.orders.state import SAOEState
from sekai.compose.orders.twap_relative_action import TwapRelativeActionInterpreter
from sekai.compose.reward import Reward, RewardCombination, RewardError
from sekai.compose.seeds import ExhaustedError
from sekai.compose.simulator import Simulator
from sekai.compose.status import EnvWrapperStatus
from sekai.compose.validation import SpaceValidationError, validate_space

__all__ = [
    "TWAP",
    "VWAP",
    "ActionInterpreter",
    "AllAtOnce",
    "AlmgrenChrissPolicy",
    "Attached",
    "AuxiliaryInfoCollector",
    "CategoricalActionInterpreter",
    "ConsoleWriter",
    "CsvWriter",
    "CurrentStepStateInterpreter",
    "DataQueue",
    "DayFeatures",
    "DirectionError",
    "DummyStateInterpreter",
    "EnvWrapper",
    "EnvWrapperStatus",
    "ExhaustedError",
    "FiniteDummyVectorEnv",
    "FiniteShmemVectorEnv",
    "FiniteSubprocVectorEnv",
    "FiniteVectorEnv",
    "FullHistoryStateInterpreter",
    "Interpreter",
    "LogBuffer",
    "LogCollector",
    "LogLevel",
    "LogWriter",
    "MlflowWriter",
    "OracleVWAP",
    "Order",
    "OrderCosts",
    "OrderDir",
    "OrderExecution",
    "OrderExecutionConfig",
    "OrderRenderer",
    "OrderReport",
    "PAPenaltyReward",
    "PPOReward",
    "ParquetWriter",
    "QlibConfig",
    "Reward",
    "RewardCombination",
    "RewardError",
    "SAOEMetrics",
    "SAOEState",
    "ShortfallReward",
    "SimulatedMinutes",
    "Simulator",
    "SingleAssetOrderExecution",
    "SingleAssetOrderExecutionSimple",
    "SpaceValidationError",
    "StateInterpreter",
    "StoredFeatures",
    "TensorBoardWriter",
    "TickFeatures",
    "TwapRelativeActionInterpreter",
    "UnknownEnvTypeError",
    "check_nan_observation",
    "current_qlib",
    "generate_nan_observation",
    "init_qlib",
    "run_orders",
    "validate_space",
    "vectorize_env",
]
