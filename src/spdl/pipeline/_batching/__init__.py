"""The aggregators behind ``spdl.pipeline.batching``, one file each."""
