"""Saving where a training run is in its data, and going on from there."""

from ._errors import ResumeError as ResumeError

__all__ = ["ResumeError"]
