"""Imported by fork servers of processes that build pipelines, so that children find these modules in memory."""

from spdl.pipeline import _build as _build

from . import _isolated_main as _isolated_main
from . import _moved_main as _moved_main
from . import _region_main as _region_main
from . import _run_pipeline_main as _run_pipeline_main
