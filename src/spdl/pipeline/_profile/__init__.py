"""Profiling: measures each stage of a pipeline alone, at several concurrencies."""

from spdl.pipeline._profile._hook import ProfileHook as ProfileHook
from spdl.pipeline._profile._results import ProfileResult as ProfileResult
from spdl.pipeline._profile._results import ProfileResults as ProfileResults
from spdl.pipeline._profile._results import ProfileStats as ProfileStats
from spdl.pipeline._profile._run import profile_pipeline as profile_pipeline

__all__ = ["ProfileHook", "ProfileResult", "ProfileResults", "ProfileStats", "profile_pipeline"]
