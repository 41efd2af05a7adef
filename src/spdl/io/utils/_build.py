"""Optional features of this build. These functions never raise and load nothing."""


def built_with_cuda() -> bool:
    """Whether the native part has code for CUDA. This version has none."""
    return False


def built_with_nvcodec() -> bool:
    """Whether the native part decodes video on NVIDIA's GPUs. This version does not."""
    return False


def built_with_nvjpeg() -> bool:
    """Whether the native part decodes JPEG on NVIDIA's GPUs. This version does not."""
    return False
