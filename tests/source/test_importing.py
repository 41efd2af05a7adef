"""What importing sources imports."""

from tests.support.child import run_child


def test_importing_sources_imports_nothing_else() -> None:
    """Neither NumPy nor torch nor the rest of the package; every public module can be imported with a star."""
    ended = run_child("""
        import sys
        import spdl.source, spdl.source.utils, spdl.source.imagenet, spdl.source.local_directory
        print(*sorted({name.partition(".")[0] for name in sys.modules} & {"numpy", "torch"}))
        print(*sorted(name for name in sys.modules if name.startswith(("spdl.io", "spdl.pipeline"))))
        from spdl.source import *
        from spdl.source.utils import *
        from spdl.source.imagenet import *
        from spdl.source.local_directory import *
        LocalDirectory, ImageNet, parse_wnid, get_mappings, embed_shuffle, repeat_source, MergeIterator
        IterableWithShuffle, SizedIterable, SizedIterableWithShuffle
        DistributedDeterministicSampler, DistributedRandomSampler, KeyedPermutation, DistributedKeyedSampler
    """)
    ended.check()
