# What the stubs say beyond what the extension tells of itself; read by scripts/stubs.

# The buffer protocol: a slot of the type, which Python shows as a method from 3.12 on only.
spdl.io.lib._core.CPUBuffer.__buffer__:

spdl.io.lib._core.CPUBuffer.__suffix__:
    def __buffer__(self, flags: int, /) -> memoryview: ...

spdl.io.lib._core.CPUStorage.__buffer__:

spdl.io.lib._core.CPUStorage.__suffix__:
    def __buffer__(self, flags: int, /) -> memoryview: ...

spdl._processes.lib._memory.View.__buffer__:

spdl._processes.lib._memory.View.__suffix__:
    def __buffer__(self, flags: int, /) -> memoryview: ...

spdl._processes.lib._memory.Exporter.__buffer__:

spdl._processes.lib._memory.Exporter.__suffix__:
    def __buffer__(self, flags: int, /) -> memoryview: ...

spdl.io.lib._media.SharedBytes.__buffer__:

spdl.io.lib._media.SharedBytes.__suffix__:
    def __buffer__(self, flags: int, /) -> memoryview: ...
