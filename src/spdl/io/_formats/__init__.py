"""Formats that need no FFmpeg: npy, npz, tar, WAV."""
