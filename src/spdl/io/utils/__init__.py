"""Utilities: FFmpeg's versions, filters and log level; the memory cache; information on the native parts; tracing."""

from ._ffmpeg import get_ffmpeg_filters as get_ffmpeg_filters
from ._ffmpeg import get_ffmpeg_log_level as get_ffmpeg_log_level
from ._ffmpeg import get_ffmpeg_versions as get_ffmpeg_versions
from ._ffmpeg import set_ffmpeg_log_level as set_ffmpeg_log_level
from ._memory_cache import get_memory_cache_limit as get_memory_cache_limit
from ._memory_cache import release_memory_cache as release_memory_cache
from ._memory_cache import set_memory_cache_limit as set_memory_cache_limit
from ._native_info import LibraryInfo as LibraryInfo
from ._native_info import NativeInfo as NativeInfo
from ._native_info import built_with_cuda as built_with_cuda
from ._native_info import built_with_nvcodec as built_with_nvcodec
from ._native_info import built_with_nvjpeg as built_with_nvjpeg
from ._native_info import get_native_info as get_native_info
from ._tracing import trace_counter as trace_counter
from ._tracing import trace_event as trace_event
from ._tracing import trace_gc as trace_gc
from ._tracing import tracing as tracing

__all__ = [
    "LibraryInfo",
    "NativeInfo",
    "built_with_cuda",
    "built_with_nvcodec",
    "built_with_nvjpeg",
    "get_ffmpeg_filters",
    "get_ffmpeg_log_level",
    "get_ffmpeg_versions",
    "get_memory_cache_limit",
    "get_native_info",
    "release_memory_cache",
    "set_ffmpeg_log_level",
    "set_memory_cache_limit",
    "trace_counter",
    "trace_event",
    "trace_gc",
    "tracing",
]
