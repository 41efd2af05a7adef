"""s3torchconnector's client, which its datasets use, with one client for all threads. nginx checks no signatures."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import s3torchconnector
from s3torchconnector import S3ClientConfig
from s3torchconnector._s3client import S3Client

from ._outputs import outputs as outputs


def versions() -> dict[str, str]:
    return {"s3torchconnector": s3torchconnector.__version__}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    client = _client(data["endpoint"].rstrip("/"))
    return lambda: [client.get_object("bucket", path).read() for path in data["paths"]]


@lru_cache
def _client(endpoint: str) -> S3Client:
    config = S3ClientConfig(unsigned=True, force_path_style=True)
    return S3Client("us-east-1", endpoint=endpoint, s3client_config=config)
