"""CUDA for tests that need it: without, they skip; with ``SPDL_REQUIRE_GPU=1``, they fail."""

import os
from typing import Any

import pytest

__all__ = ["require_cuda"]


def require_cuda() -> Any:
    """torch, with a CUDA device."""
    try:
        import torch
    except ImportError:
        missing = "torch is not installed"
    else:
        if torch.cuda.is_available():
            return torch
        missing = "torch finds no CUDA device"
    if os.environ.get("SPDL_REQUIRE_GPU") == "1":
        pytest.fail(f"SPDL_REQUIRE_GPU=1, but {missing}")
    pytest.skip(missing)
