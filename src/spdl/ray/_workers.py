"""The pipeline's side of the actors of one region."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spdl._errors import WorkerDiedError, WorkerError
from spdl._processes._calls import Request
from spdl._processes._elsewhere import ELSEWHERE, pid_space
from spdl._processes._transport._connection import Message
from spdl._processes._transport._link import Link
from spdl._processes._transport._pickling import Encoded
from spdl.pipeline._engine._region._workers import Died, Event, Failed, Ready, Then, Told
from spdl.pipeline._remote._region_main import RegionTalk

from ._actor import RegionActor
from ._door import Door, DoorAddress, open_door
from ._looking import GROUP, Looking
from ._messages import ArrivedMessage, PayloadEncoder, Place, Wire, import_ray, to_wire

if TYPE_CHECKING:
    from spdl.pipeline._remote._region_main import RegionSpec


_LOG: Final = logging.getLogger("spdl.pipeline")
_GROUPS: Final = {"in": 1, "out": 1, GROUP: 1}
#: How long a listening thread may take to notice that its actor was killed, in seconds.
_KILL_TIMEOUT: Final = 2.0


class _Heard(NamedTuple):
    """Something received from an actor: where it runs, messages, why it ended, or ``None`` if it ended by itself."""

    worker: int
    generation: int
    what: list[Message] | Place | BaseException | None
    link: Link | None = None  # the connection that the messages came from; ``None``: Ray


class _Calls(PayloadEncoder):
    """The connection to an actor through Ray. See ``spdl._processes._transport.Connection``; ``_listen`` receives."""

    def __init__(self, actor: Any, worker: int, generation: int, heard: SimpleQueue[_Heard | None]) -> None:
        super().__init__()
        self.actor = actor
        self.worker = worker
        self.generation = generation
        self._heard = heard
        self._lock = threading.Lock()
        self._num_sent = 0

    def begin(self, spec: Any, door: DoorAddress | None) -> None:
        """Send the actor its work."""
        result = self.actor.begin.options(concurrency_group="in").remote(spec, self.worker, self.generation, door)
        result.future().add_done_callback(self._note_received)  # it may lack a module of the user

    def send_encoded(self, frames: Iterable[tuple[int, int, Encoded]]) -> None:
        with self._lock:  # the actor puts calls in this order
            number, self._num_sent = self._num_sent, self._num_sent + 1
            # Copies the payloads.
            result = self.actor.receive.options(concurrency_group="in").remote(number, to_wire(frames))
        # If Ray has lost the argument of a call, the actor waits for that call before it handles later ones.
        result.future().add_done_callback(self._note_received)

    def _note_received(self, result: Future[None]) -> None:
        error = result.exception()
        if error is None:
            return
        exceptions = import_ray().exceptions
        if isinstance(error, exceptions.RayActorError) and not isinstance(error, exceptions.ActorUnavailableError):
            return  # it is dead, which ``_listen`` notices after its last messages
        self._heard.put(_Heard(self.worker, self.generation, error))

    def recv(self) -> Message:
        raise NotImplementedError

    def end_sending(self) -> None:
        """Tell the actor to end after it has processed what was sent."""
        self.actor.close.options(concurrency_group="in").remote()


class _Port:
    """One actor, and the connections to it."""

    def __init__(self, actor: Any, worker: int, generation: int, heard: SimpleQueue[_Heard | None]) -> None:
        self.actor = actor
        self.generation = generation
        self.way: _Calls | Link = _Calls(actor, worker, generation, heard)  # where it reported ready
        self.place: Place | None = None  # until Ray has started it
        self.is_ready = False
        self.is_done = False  # it gets no more items
        self.is_retired = False  # it was told to end
        self.is_lost = False  # it has died, failed or was ended: ignore further messages from it
        self.deadline = inf  # for being ready
        self.listener: threading.Thread  # for messages through Ray
        self.link: Link | None = None  # the fast path, if it connected at the door
        self.link_listener: threading.Thread | None = None

    def close(self) -> None:
        """Close the fast path."""
        if self.link is not None:
            self.link.close()


class RayWorkers:
    """See ``RegionWorkers``, and ``RayActors`` for the arguments."""

    may_resize = True

    def __init__(
        self,
        spec: RegionSpec,
        num_actors: int,
        options: Mapping[str, Any],
        *,
        restart: bool,
        start_timeout: float | None,
        address: str | None,
    ) -> None:
        self.num_workers = num_actors
        self.may_replace = restart
        self.waits_until_ready = True  # the cluster may have room for only some of them
        self._spec: Any = spec
        self._actor_class: Any = None
        self._stage = spec.stage
        self._options = options
        self._start_timeout = start_timeout
        self._address = address
        self._talk = RegionTalk()
        self._ports: list[_Port] = []
        self._looking = Looking(self._stage, self._ports)
        self._heard: SimpleQueue[_Heard | None] = SimpleQueue()
        self._stopping = threading.Lock()
        self._is_stopped = False
        self._door: Door | None = None
        self._admitting = threading.Lock()

    def start(self) -> None:
        ray = import_ray()
        if not ray.is_initialized():
            ray.init(address=self._address)
        # Ray exports it once.
        self._actor_class = ray.remote(concurrency_groups=_GROUPS, max_restarts=0, **self._options)(RegionActor)
        ELSEWHERE.add(self._looking)
        with self._admitting:  # not before they are all known
            for index in range(self.num_workers):
                self._ports.append(self._make(index, 0))
            # They start in the meantime.
            self._spec = ray.put(self._spec)  # once for all actors, and those that replace them
            self._door = open_door(ray.get_runtime_context().get_node_id(), self._admit)
            for port in self._ports:
                self._tell(port)

    def add(self) -> None:
        with self._admitting:
            self._ports.append(self._start(len(self._ports), 0))

    def retire(self, worker: int, *, at_once: bool) -> None:
        port = self._ports[worker]
        if port.is_lost:
            return
        if at_once:
            self._let_go(port)
        else:
            port.is_retired = True
            port.way.end_sending()

    def _let_go(self, port: _Port) -> None:
        """End an actor that has no more to do."""
        port.is_lost, port.deadline = True, inf
        self._kill(port)

    def _start(self, index: int, generation: int) -> _Port:
        port = self._make(index, generation)
        self._tell(port)
        return port

    def _tell(self, port: _Port) -> None:
        """Send a new actor its work."""
        assert isinstance(port.way, _Calls)
        port.way.begin(self._spec, None if self._door is None else self._door.address)

    def _make(self, index: int, generation: int) -> _Port:
        """Have Ray start an actor, and listen to it."""
        actor = self._actor_class.remote()
        port = _Port(actor, index, generation, self._heard)
        if self._start_timeout is not None:
            port.deadline = monotonic() + self._start_timeout
        stream = actor.outputs.options(concurrency_group="out", num_returns="streaming").remote()
        self._talk.begin(index)
        port.listener = threading.Thread(
            target=_listen, args=(stream, port, index, self._heard), name=f"spdl-ray-{index}", daemon=True
        )
        port.listener.start()
        return port

    def _admit(self, worker: int, generation: int, pid: int, link: Link) -> None:
        """Accept an actor that has connected at the door. Called by the door's thread."""
        with self._admitting:
            port = self._ports[worker] if worker < len(self._ports) else None
            if port is None or port.generation != generation or port.link is not None or self._is_stopped:
                link.close()
                return
            port.link = link
            if port.place is None:  # its place arrives through Ray, and so may arrive after its first reports
                port.place = Place(socket.gethostname(), pid, pid_space())
            port.link_listener = threading.Thread(
                target=_listen_to_link,
                args=(link, worker, generation, self._heard),
                name=f"spdl-ray-link-{worker}",
                daemon=True,
            )
            port.link_listener.start()

    def send(
        self, worker: int, generation: int, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> list[tuple[int, Exception]]:
        port = self._ports[worker]
        if port.generation != generation:
            return []
        frames, refused = self._talk.encode(port.way, transfer, num_credits, then)
        try:
            port.way.send_encoded(frames)
        except Exception as exc:  # noqa: BLE001 - the object store is full, or Ray was shut down
            if not (port.way is port.link and isinstance(exc, OSError)):  # it has ended, which Ray reports
                self._heard.put(_Heard(worker, generation, exc))
        return refused

    def wait(self) -> list[Event]:
        events: list[Event] = []
        deadline = min(port.deadline for port in self._ports)
        with suppress(Empty):
            heard = self._heard.get(timeout=None if deadline == inf else max(0.0, deadline - monotonic()))
            while True:
                if heard is not None:
                    self._understand(heard, events)
                heard = self._heard.get_nowait()
        if monotonic() >= deadline:
            self._check_starts(events)
        return events

    def _check_starts(self, events: list[Event]) -> None:
        """Report the actors that are not ready in time."""
        now = monotonic()
        late = [index for index, port in enumerate(self._ports) if port.deadline <= now]
        for index in late:
            self._ports[index].deadline = inf
        if not late:
            return
        who = " and ".join(self.describe(index) for index in late)
        text = f"{who} of {self._stage} not ready {self._start_timeout:g} s after the start: {self._shortage(late)}"
        if any(port.is_ready and not port.is_lost for port in self._ports):
            _LOG.warning("%s. The other actors go on, and these join them when they are ready.", text)
        else:
            events.append(Failed(late[0], WorkerError(f"{text}. See start_timeout of RayActors.")))

    def _shortage(self, late: list[int]) -> str:
        """Why actors are not ready, as far as known."""
        if all(self._ports[index].place is not None for index in late):
            return "they run, but the initializer has not returned"
        ray, num_cpus = import_ray(), self._options["num_cpus"]
        reserved = {"CPU": int(num_cpus) if num_cpus == int(num_cpus) else num_cpus}
        reserved |= self._options.get("resources", {})
        try:
            total, free = ray.cluster_resources(), ray.available_resources()
        except Exception as exc:  # noqa: BLE001 - the cluster may be gone
            return f"each reserves {reserved}; the resources of the cluster are not known ({exc})"
        has = ", ".join(f"{name} {free.get(name, 0):g} of {total.get(name, 0):g}" for name in {**reserved, **total})
        return f"each reserves {reserved}, and the cluster has free {has}"

    def _understand(self, heard: _Heard, events: list[Event]) -> None:
        index, what = heard.worker, heard.what
        port = self._ports[index]
        if heard.generation != port.generation or port.is_lost:
            return
        if isinstance(what, Place):
            port.place = what
            return
        if isinstance(what, list):
            for message in what:
                event = self._talk.hear(index, message)
                if isinstance(event, Ready):
                    self._begin(port, heard.link)
                elif isinstance(event, Told) and event.then is Then.END:
                    port.is_done = True
                    self._make_room()
                if event is not None:
                    events.append(event)
            return
        if port.is_retired:
            self._let_go(port)
            port.close()
            return
        ray = import_ray()
        port.is_lost, port.deadline = True, inf
        if what is None or isinstance(what, ray.exceptions.RayActorError | ray.exceptions.ObjectLostError):
            how = "has ended" if what is None else f"died: {what}"
            events.append(Died(index, WorkerDiedError(f"{self.describe(index)} of {self._stage} {how}")))
        else:
            error = WorkerError(f"{self.describe(index)} of {self._stage} failed: {what}")
            error.__cause__ = what
            events.append(Failed(index, error))

    def _make_room(self) -> None:
        """End the actors that get no more items, if another one waits for the resources that they reserve.

        The waiting one replaces a dead actor, whose items the others no longer take: without this, they would wait for
        each other forever.
        """
        if any(not (port.is_ready or port.is_lost or port.is_done) for port in self._ports):
            for port in self._ports:
                if port.is_done and not port.is_lost:
                    self._let_go(port)

    def _begin(self, port: _Port, link: Link | None) -> None:
        """Begin communication with a ready actor, on the connection on which it reported that."""
        port.is_ready, port.deadline = True, inf
        if link is not None:
            port.way = link
        with suppress(OSError):  # it has already died, which Ray reports
            port.way.send(Request.START, self._talk.conversation, self._stage)

    def wake(self) -> None:
        self._heard.put(None)

    def replace(self, worker: int, done: Sequence[int]) -> None:
        port = self._ports[worker]
        self._kill(port)
        port.listener.join(_KILL_TIMEOUT)
        with self._admitting:
            self._ports[worker] = self._start(worker, port.generation + 1)
        port.close()
        for index in done:
            self._ports[index].is_done = True
        self._make_room()

    def stop(self, timeout: float) -> list[int]:
        with self._stopping:
            if self._is_stopped:
                return []
            with self._admitting:
                self._is_stopped = True
            for port in self._ports:
                if port.is_ready:
                    port.way.end_sending()
                else:
                    self._kill(port)
            deadline = monotonic() + timeout
            killed = []
            for index, port in enumerate(self._ports):
                port.listener.join(max(0.0, deadline - monotonic()))
                if port.is_ready and port.listener.is_alive():
                    killed.append(index)
                self._kill(port)
            for port in self._ports:
                port.listener.join(_KILL_TIMEOUT)
                port.close()
            if self._door is not None:
                self._door.close()
            ELSEWHERE.discard(self._looking)
            self._spec = None
            return killed

    def kill(self) -> None:
        for port in list(self._ports):
            self._kill(port)

    def _kill(self, port: _Port) -> None:
        with suppress(Exception):  # it is dead, or Ray is
            import_ray().kill(port.actor, no_restart=True)

    def describe(self, worker: int) -> str:
        place = self._ports[worker].place if worker < len(self._ports) else None
        return f"actor {worker}" if place is None else f"actor {worker} (pid {place.pid} on {place.host})"


def _listen(stream: Any, port: _Port, worker: int, heard: SimpleQueue[_Heard | None]) -> None:
    """Body of the thread that receives Ray's messages from one actor."""
    ray, end = import_ray(), None
    try:
        for reference in stream:
            what: Wire | Place = ray.get(reference)
            if isinstance(what, Place):
                heard.put(_Heard(worker, port.generation, what))
            else:
                heard.put(_Heard(worker, port.generation, [ArrivedMessage(*each) for each in what]))
            del reference, what
    except BaseException as exc:  # noqa: BLE001 - reported to the region
        end = exc
    if port.link_listener is not None:
        port.link_listener.join(_KILL_TIMEOUT)  # its last messages before it ended
    heard.put(_Heard(worker, port.generation, end))


def _listen_to_link(link: Link, worker: int, generation: int, heard: SimpleQueue[_Heard | None]) -> None:
    """Body of the thread that listens to an actor on the same node. ``_listen`` reports how it ended."""
    with suppress(EOFError):
        while True:
            frames: list[Message] = [link.recv()]
            while (frame := link.next_frame()) is not None:
                frames.append(frame)
            heard.put(_Heard(worker, generation, frames, link))
            del frames, frame
