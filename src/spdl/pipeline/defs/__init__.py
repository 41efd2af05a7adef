"""Descriptions of pipelines. They validate their arguments and run nothing. They pickle if the user's objects pickle.

The classes are frozen but not slotted: they are generic, and on Python 3.11 ``SinkConfig[int](3)`` raises for a slotted
frozen dataclass.

``__all__`` is the public interface. The other names are for this package: types, checks that only a build can make
(``validate_max_failures``, ``check_regions``), and ``Region``.
"""

from ._aggregate import Aggregate, AggregateConfig, Aggregator, Collate, Disaggregate, DisaggregateConfig, Outputs
from ._failures import MaxFailures as MaxFailures
from ._failures import OnError as OnError
from ._failures import Rate, Retry
from ._failures import as_retry as as_retry
from ._failures import validate_max_failures as validate_max_failures
from ._pipe import Op as Op
from ._pipe import OutputOrder as OutputOrder
from ._pipe import Pipe, PipeConfig
from ._pipe import SupportsGetItem as SupportsGetItem
from ._pipe import TakesRng as TakesRng
from ._pipe import check_op as check_op
from ._pipeline import Merge, MergeConfig, PipelineConfig
from ._pipeline import check_regions as check_regions
from ._placement import (
    MAIN_PROCESS,
    ExecutorConfig,
    InterpreterPoolExecutorConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
)
from ._placement import MainProcess as MainProcess
from ._placement import Region as Region
from ._placement import split_regions as split_regions
from ._placement import without_executors as without_executors
from ._source import Exclude as Exclude
from ._source import SinkConfig, SourceConfig
from ._stage import PathStage as PathStage
from ._stage import StageConfig as StageConfig
from ._variants import PathVariants, PathVariantsConfig

__all__ = [
    "Aggregate",
    "AggregateConfig",
    "Aggregator",
    "Collate",
    "Disaggregate",
    "DisaggregateConfig",
    "ExecutorConfig",
    "InterpreterPoolExecutorConfig",
    "MAIN_PROCESS",
    "Merge",
    "MergeConfig",
    "Outputs",
    "PathVariants",
    "PathVariantsConfig",
    "Pipe",
    "PipeConfig",
    "PipelineConfig",
    "PlacementConfig",
    "ProcessPoolExecutorConfig",
    "Rate",
    "Retry",
    "SinkConfig",
    "SourceConfig",
]
