"""Holds the stage hooks of nodes: entered before the first item, exited when the node has ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from time import perf_counter
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl.pipeline._engine._failures import as_stage_failure

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._node import Node
    from spdl.pipeline._info import StageInfo


class StageHooks:
    """The stage hooks of all nodes. The engine's lock guards what other threads use."""

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.of_nodes: list[tuple[Node, list[Callable[[], Any]]]] = []
        self._left: set[int] = set()  # nodes whose hooks must exit
        self._leave: dict[int, asyncio.Future[None]] = {}  # futures that the hook tasks wait for until then
        # on the loop's thread only
        self._holders: list[tuple[Node, asyncio.Task[Any]]] = []
        self._num_entering = 0

    def leave(self, owner: object) -> asyncio.Future[None] | None:
        """Under the lock: exit the hooks of a node. Returns the future to resolve on the loop, if they are entered."""
        self._left.add(id(owner))
        return self._leave.get(id(owner))

    def to_leave(self) -> list[Node]:
        """Under the lock: the ended nodes whose hooks have not exited."""
        return [node for node, _ in self.of_nodes if node.ended and node.num_hooks]

    def running(self) -> list[tuple[StageInfo, asyncio.Task[Any]]]:
        """Return the stages whose hooks have not exited, with their tasks. From any thread."""
        return [(node.info, task) for node, task in self._holders if not task.done()]

    # -- on the loop

    async def enter_all(self, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]]) -> None:
        """Start the tasks that hold the hooks, and wait until all hooks are entered."""
        self._num_entering = len(self.of_nodes)
        self._entered = asyncio.Event()
        self._holders = [(node, spawn(self.hold(node, hooks))) for node, hooks in self.of_nodes]
        if self._holders:
            await self._entered.wait()

    async def hold(self, node: Node, hooks: list[Callable[[], Any]]) -> None:
        """Enter the stage hooks of a node, wait for its end, exit them.

        Never cancelled: the exit of a hook always runs.
        """
        engine = self.engine
        entered = False
        try:
            async with AsyncExitStack() as stack:
                for hook in hooks:
                    await stack.enter_async_context(hook())
                entered = True
                self._note_entered()
                with engine.lock:
                    leave = None
                    if id(node) not in self._left:
                        leave = self._leave[id(node)] = asyncio.get_running_loop().create_future()
                if leave is not None:
                    await leave
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code
            what = f"a stage hook of {node.info}, on {'exit' if entered else 'entry'}"
            error = as_stage_failure(exc, what)
            with engine.lock:
                engine.fail(node, error, perf_counter())
        finally:
            if not entered:
                self._note_entered()
            with engine.lock:
                node.num_hooks = 0
                if node.ended:
                    node.close_outputs(perf_counter())

    def _note_entered(self) -> None:
        self._num_entering -= 1
        if self._num_entering == 0:
            self._entered.set()
