"""Comparison of the pictures of two contestants, with a tolerance for filters and decoders."""

from typing import Any

import numpy as np

from ._work import MEAN, STD, Work

#: Peers resample with different filters, some half a pixel off. A whole pixel off, or the wrong order, is below this.
ALIKE_DB = 28.0


def likeness_of(ours: Any, theirs: Any, work: Work) -> float:
    """PSNR in dB, at most 99; 0 if shape or element type differ. Floats are converted back to levels first."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return 0.0
    mean_square = float(((_levels(ours, work) - _levels(theirs, work)) ** 2).mean())
    return round(min(99.0, 10 * float(np.log10(255**2 / max(mean_square, 1e-9)))), 1)


def _levels(batch: Any, work: Work) -> Any:
    if work.dtype == "uint8":
        return batch.astype(np.float64)
    shape = (1, 3, 1, 1)
    return 255 * (batch.astype(np.float64) * np.reshape(STD, shape) + np.reshape(MEAN, shape))
