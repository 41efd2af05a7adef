"""Loaders in familiar shapes. So far: the builder, under the name that guides for data loaders use."""

from spdl.pipeline import PipelineBuilder as PipelineBuilder

__all__ = ["PipelineBuilder"]
