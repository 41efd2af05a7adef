"""HTML reports of saved statistics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any

from spdl.pipeline._observe._document import written
from spdl.pipeline._observe._html import page


def write_report(paths: Iterable[str | PathLike[str]], path: str | PathLike[str]) -> None:
    """Write one HTML page about the pipelines of several files, such as those of all ranks. ``spdl report`` does it.

    Args:
        paths: Files written by ``stats().to_json(path)``.
        path: File to write.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: A file was not written by ``to_json``, or ``paths`` is empty.
    """
    documents: dict[str, dict[str, Any]] = {}
    for each in paths:
        documents[fspath(each)] = _read(fspath(each))
    if not documents:
        raise ValueError("paths must name at least one file, got none")
    titles = [f"Pipeline {document['pipeline']}" for document in documents.values()]
    if len(documents) > 1:
        titles = [f"{title}: {name}" for title, name in zip(titles, documents, strict=True)]
    written(page(list(documents.values()), titles), path)


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        try:
            found = json.load(file)
        except ValueError as exc:
            raise ValueError(f"{path} is not a file of stats().to_json(): {exc}") from exc
    if not isinstance(found, dict) or "spdl_stats" not in found:
        raise ValueError(f"{path} is not a file of stats().to_json(): it has no entry 'spdl_stats'")
    if found["spdl_stats"] != 1:
        raise ValueError(f"{path} is of version {found['spdl_stats']!r}, and this spdl reads version 1")
    try:
        page([found])
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as exc:
        raise ValueError(f"{path} is damaged: a report of it fails with {type(exc).__name__}: {exc}") from exc
    return found
