"""The stages, one file per kind: which input a stage takes, and how it handles the outcome of a call.

Everything runs under the engine's lock unless it says otherwise.
"""

from ._aggregate import AggregateStage as AggregateStage
from ._aggregate_due import DueAggregateStage as DueAggregateStage
from ._async_generator import AsyncGeneratorStage as AsyncGeneratorStage
from ._call import CallStage as CallStage
from ._collate import CollateStage as CollateStage
from ._failing import begin as begin
from ._gate import GateStage as GateStage
from ._generator import GeneratorStage as GeneratorStage
from ._hooked import HookedGenerator as HookedGenerator
from ._hooked import HookedOp as HookedOp
from ._hooked import HookLog as HookLog
from ._hooked import steps_on_thread as steps_on_thread
from ._hooked import to_its_end as to_its_end
from ._merge import CustomMergeStage as CustomMergeStage
from ._merge import MergeStage as MergeStage
from ._ordered import OrderedCallStage as OrderedCallStage
from ._region import RegionStage as RegionStage
from ._retried import RemoteRetried as RemoteRetried
from ._retried import retried as retried
from ._seeded import SeededHookedGenerator as SeededHookedGenerator
from ._seeded import SeededHookedOp as SeededHookedOp
from ._seeded import SeededOp as SeededOp
from ._seeded import seeded as seeded
from ._source import SourceNode as SourceNode
from ._timed import TimedCallStage as TimedCallStage
from ._timed import TimedGeneratorStage as TimedGeneratorStage
from ._timed import TimedOrderedCallStage as TimedOrderedCallStage
from ._timed import TimedStage as TimedStage
from ._timed import give_up as give_up
from ._timed import in_time as in_time
from ._timed import timed_async as timed_async
from ._variants import BatchedPathMerge as BatchedPathMerge
from ._variants import RouterStage as RouterStage

__all__ = [
    "AggregateStage",
    "AsyncGeneratorStage",
    "BatchedPathMerge",
    "CallStage",
    "CollateStage",
    "CustomMergeStage",
    "DueAggregateStage",
    "GateStage",
    "GeneratorStage",
    "HookLog",
    "HookedGenerator",
    "HookedOp",
    "MergeStage",
    "OrderedCallStage",
    "RegionStage",
    "RemoteRetried",
    "RouterStage",
    "SeededHookedGenerator",
    "SeededHookedOp",
    "SeededOp",
    "SourceNode",
    "TimedCallStage",
    "TimedGeneratorStage",
    "TimedOrderedCallStage",
    "TimedStage",
    "begin",
    "give_up",
    "in_time",
    "retried",
    "seeded",
    "steps_on_thread",
    "timed_async",
    "to_its_end",
]
