"""CUDA: buffers and tensors on a device, transfers, and decoding there."""
