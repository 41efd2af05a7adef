"""Loads the native extension ``lib._memory``: memory that two processes share, and what threads are doing."""

import sys

from spdl._extensions import load_extension

load_extension("spdl._processes.lib._memory")

from .lib._memory import Area as Area  # noqa: E402  # loaded before
from .lib._memory import FrameRing as FrameRing  # noqa: E402
from .lib._memory import Sampler as Sampler  # noqa: E402
from .lib._memory import Sender as Sender  # noqa: E402
from .lib._memory import TraceLines as TraceLines  # noqa: E402
from .lib._memory import TraceTrack as TraceTrack  # noqa: E402
from .lib._memory import View as View  # noqa: E402
from .lib._memory import Watchdog as Watchdog  # noqa: E402
from .lib._memory import Writer as Writer  # noqa: E402
from .lib._memory import copy_to_bytes as copy_to_bytes  # noqa: E402
from .lib._memory import exit_on_hangup as exit_on_hangup  # noqa: E402
from .lib._memory import exporter_of as exporter_of  # noqa: E402
from .lib._memory import offset_of as offset_of  # noqa: E402

if sys.platform == "linux":
    from .lib._memory import ParkingLock as ParkingLock
    from .lib._memory import PostponingLock as PostponingLock
