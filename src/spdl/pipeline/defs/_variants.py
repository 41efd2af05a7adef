"""A stage that sends each item down one of several paths."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ._stage import ChangeExecutor, PathStage

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class PathVariantsConfig(PathStage, Generic[T]):
    """Several paths of stages and a router that chooses one; made by :func:`PathVariants`.

    Args:
        name: Name of the stage.
        router: Sync or async function that takes an item and returns the index of its path. If ``batched``, it takes a
            list of items and returns a list of indices.
        paths: Stages of each path.
        batched: Whether items are lists whose elements are routed separately and joined again.

    Raises:
        ValueError: ``router`` is not callable, there is no path, a path is empty, or a path contains something other
            than pipes, aggregates, disaggregates and path variants.
    """

    name: str
    router: Callable[[Any], Any]
    paths: tuple[tuple[PathStage, ...], ...]
    batched: bool = False

    def __post_init__(self) -> None:
        if not callable(self.router):
            raise ValueError(f"router must be callable, got an object of type {type(self.router).__qualname__}")
        paths = tuple(_as_path(i, path) for i, path in enumerate(self.paths))
        if not paths:
            raise ValueError("path variants need at least one path, got none")
        object.__setattr__(self, "paths", paths)

    @property
    def _is_limited_by_pipeline(self) -> bool:
        return any(stage._is_limited_by_pipeline for path in self.paths for stage in path)

    @property
    def _is_seeded(self) -> bool:
        return any(stage._is_seeded for path in self.paths for stage in path)

    def _check_in_region(self, region: object) -> None:
        for path in self.paths:
            for stage in path:
                stage._check_in_region(region)

    def _pickled_parts(self) -> Iterator[tuple[str, Any]]:
        yield f"the router of stage {self.name}", self.router
        for path in self.paths:
            for stage in path:
                yield from stage._pickled_parts()

    def _map_executors(self, change: ChangeExecutor) -> "PathVariantsConfig[T]":
        paths = tuple(tuple(stage._map_executors(change) for stage in path) for path in self.paths)
        return replace(self, paths=paths)

    def __repr__(self) -> str:
        paths = (f"path{i}=[{', '.join(map(repr, path))}]" for i, path in enumerate(self.paths))
        return f"PathVariants({', '.join(paths)})"


def _as_path(index: int, path: object) -> tuple[PathStage, ...]:
    if not isinstance(path, Sequence):
        raise ValueError(f"path {index} must be a sequence of stages, got {type(path).__qualname__}")
    if not path:
        raise ValueError(f"path {index} is empty: each path needs at least one stage")
    for position, stage in enumerate(path):
        if not isinstance(stage, PathStage):
            raise ValueError(
                f"path {index}, position {position}: a path holds Pipe, Aggregate, Disaggregate and PathVariants "
                f"configs, got {type(stage).__qualname__}"
            )
    return tuple(path)


def PathVariants(
    router: Callable[[Any], Any], paths: Sequence[Sequence[PathStage]], name: str | None = None, batched: bool = False
) -> PathVariantsConfig[Any]:
    """Describe a stage that sends each item down one of several paths.

    Args:
        router: Sync or async function that takes an item and returns the index of its path. If ``batched``, it takes a
            list of items and returns a list of indices.
        paths: Stages of each path: pipes, aggregates, disaggregates, path variants.
        name: Name of the stage; ``"path_variants"`` by default.
        batched: Whether items are lists whose elements are routed separately and joined again.

    Raises:
        ValueError: Same as :class:`PathVariantsConfig`.
    """
    if not isinstance(paths, Sequence):
        raise ValueError(f"paths must be a sequence of paths, got {type(paths).__qualname__}")
    stages = tuple(_as_path(i, path) for i, path in enumerate(paths))
    return PathVariantsConfig("path_variants" if name is None else name, router, stages, bool(batched))
