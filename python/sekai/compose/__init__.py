"""Composed environments: simulator, interpreters and reward; finite vector envs; orders."""

from sekai.compat.qlib import QlibConfig, current_qlib, init_qlib
from sekai.compose.component import EnvAware
from sekai.compose.data_queue import DataQueue
from sekai.compose.env_wrapper import EnvWrapper, EnvWrapperStatus
from sekai.compose.finite_vector_env import FiniteVectorEnv
from sekai.compose.interpreter import (
    ActionInterpreter,
    Interpreter,
    SpaceValidationError,
    StateInterpreter,
    check_nan_observation,
    generate_nan_observation,
    validate_space,
)
from sekai.compose.logs.collector import LogCollector, LogLevel
from sekai.compose.logs.table_writers import CsvWriter, ParquetWriter
from sekai.compose.logs.trackers import MlflowWriter, TensorBoardWriter
from sekai.compose.logs.writer import ConsoleWriter, LogBuffer, LogWriter
from sekai.compose.orders.baselines import TWAP, VWAP, AllAtOnce, AlmgrenChrissPolicy, OracleVWAP
from sekai.compose.orders.basket_execution import BasketExecution, BasketExecutionConfig
from sekai.compose.orders.composed import ComposedOrderExecution
from sekai.compose.orders.config import OrderExecutionConfig
from sekai.compose.orders.data import SimulatedMinutes
from sekai.compose.orders.features import DayFeatures, StoredFeatures, TickFeatures
from sekai.compose.orders.interpreters import (
    CategoricalActionInterpreter,
    CurrentStepStateInterpreter,
    DummyStateInterpreter,
    FullHistoryStateInterpreter,
    TwapRelativeActionInterpreter,
)
from sekai.compose.orders.order import DirectionError, Order, OrderDir
from sekai.compose.orders.order_execution import OrderExecution
from sekai.compose.orders.order_renderer import OrderRenderer
from sekai.compose.orders.rewards import PAPenaltyReward, PPOReward, ShortfallReward
from sekai.compose.orders.run_orders import OrderReport, run_orders
from sekai.compose.orders.simulators import (
    OrderCosts,
    SingleAssetOrderExecution,
    SingleAssetOrderExecutionSimple,
)
from sekai.compose.orders.state import SAOEMetrics, SAOEState
from sekai.compose.reward import AuxiliaryInfoCollector, Reward, RewardCombination, RewardError
from sekai.compose.seeds import ExhaustedError
from sekai.compose.simulator import Simulator
from sekai.compose.vectorize import (
    FiniteDummyVectorEnv,
    FiniteShmemVectorEnv,
    FiniteSubprocVectorEnv,
    UnknownEnvTypeError,
    vectorize_env,
)

__all__ = [
    "TWAP",
    "VWAP",
    "ActionInterpreter",
    "AllAtOnce",
    "AlmgrenChrissPolicy",
    "AuxiliaryInfoCollector",
    "BasketExecution",
    "BasketExecutionConfig",
    "CategoricalActionInterpreter",
    "ComposedOrderExecution",
    "ConsoleWriter",
    "CsvWriter",
    "CurrentStepStateInterpreter",
    "DataQueue",
    "DayFeatures",
    "DirectionError",
    "DummyStateInterpreter",
    "EnvAware",
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
