"""Imported by a fork server, whose children then may map little more than they have."""

import mmap
import resource

with open("/proc/self/statm", encoding="ascii") as _file:
    _used = int(_file.read().split()[0]) * mmap.PAGESIZE

resource.setrlimit(resource.RLIMIT_AS, (_used + (256 << 20), resource.RLIM_INFINITY))
