"""The automatic arena against a model: contents, room and counts hold, whatever is done in whatever order."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from spdl._processes._transport._arena import Arena

LIMIT = 1 << 16
UNIT = 64

sizes = st.one_of(st.integers(0, 300), st.integers(0, LIMIT), st.sampled_from([UNIT, LIMIT // 2, LIMIT]))


class _Sent:
    """A span that the receiver has not got yet, or a view of it."""

    def __init__(self, span: tuple[int, int, int], contents: bytes) -> None:
        self.span = span
        self.contents = contents
        self.view: Any = None


class _Slot:
    def __init__(self, memory: memoryview, contents: bytes) -> None:
        self.memory: memoryview | None = memory
        self.contents = contents


class ArenaModel(RuleBasedStateMachine):
    """Both sides of an arena. The model knows for each block where it is and what refers to it."""

    spans = Bundle("spans")
    views = Bundle("views")
    slots = Bundle("slots")

    def __init__(self) -> None:
        super().__init__()
        arena = Arena(LIMIT)
        self.sender, self.receiver = arena.open_sender(), arena.open_receiver()
        arena.close()
        self.number = 0
        self.blocks: dict[int, tuple[int, int]] = {}  # block: where it begins, and its size in whole units
        self.references: dict[int, list[object]] = {}
        self.seen: list[_Sent] = []  # views

    def teardown(self) -> None:
        self.sender.close()

    def fill(self, size: int) -> bytes:
        self.number += 1
        return bytes([self.number % 255 + 1]) * size

    def forget(self, block: int, reference: object) -> None:
        self.references[block].remove(reference)
        if not self.references[block]:
            del self.references[block], self.blocks[block]

    def holes(self) -> list[int]:
        taken = sorted(self.blocks.values())
        starts = [0, *(start + size for start, size in taken)]
        return [end - start for start, end in zip(starts, [*(start for start, _ in taken), LIMIT], strict=True)]

    def place(self, block: int, offset: int, size: int, reference: object) -> None:
        assert block not in self.blocks
        assert offset % UNIT == 0
        self.blocks[block] = offset, -(-size // UNIT) * UNIT
        self.references[block] = [reference]

    @rule(target=spans, lengths=st.lists(sizes, max_size=4))
    def put(self, lengths: list[int]) -> Any:
        data = [self.fill(size) for size in lengths]
        found = self.sender.put(data)
        if found is None:
            # One that is refused alone has no hole that is large enough.
            assert len(lengths) > 1 or max(self.holes()) < lengths[0]
            return multiple()
        sent = [_Sent(span, each) for span, each in zip(found, data, strict=True)]
        for each in sent:
            if each.contents:
                self.place(*each.span, each)
        return multiple(*sent)

    @rule(target=slots, size=st.integers(1, LIMIT // 4))
    def take_slot(self, size: int) -> Any:
        memory = self.sender.slot(size)
        if memory is None:
            assert max(self.holes()) < size
            return multiple()
        slot = _Slot(memory, self.fill(size))
        memory[:] = slot.contents
        (span,) = self.sender.put([memory]) or [(-1, -1, -1)]
        self.place(*span, slot)
        self.sender.take_back([span])
        return slot

    @rule(target=spans, slot=slots, start=st.integers(0, 100), length=st.integers(1, LIMIT))
    def put_of_slot(self, slot: _Slot, start: int, length: int) -> Any:
        if slot.memory is None:
            return multiple()
        part = slot.memory[start : start + length]
        found = self.sender.put([part])
        assert found is not None
        sent = _Sent(found[0], bytes(part))
        if sent.contents:
            block, offset, size = sent.span
            assert slot in self.references[block]
            assert offset == self.blocks[block][0] + start
            assert size == len(part)
            self.references[block].append(sent)
        return sent

    @rule(slot=consumes(slots))
    def release_slot(self, slot: _Slot) -> None:
        block = next(block for block, held in self.references.items() if slot in held)
        slot.memory = None
        self.forget(block, slot)

    @rule(target=views, sent=consumes(spans))
    def get(self, sent: _Sent) -> _Sent:
        (sent.view,) = self.receiver.get([sent.span])
        self.seen.append(sent)
        return sent

    @rule(sent=consumes(spans), side=st.booleans())
    def drop(self, sent: _Sent, side: bool) -> None:
        if side:
            self.receiver.drop([sent.span])
        else:
            self.sender.take_back([sent.span])
        if sent.contents:
            self.forget(sent.span[0], sent)

    @rule(sent=consumes(views))
    def release_view(self, sent: _Sent) -> None:
        sent.view = None
        self.seen.remove(sent)
        if sent.contents:
            self.forget(sent.span[0], sent)

    @rule()
    def trim(self) -> None:
        self.sender.trim()

    @invariant()
    def contents_are_those_that_were_put(self) -> None:
        for sent in self.seen:
            assert bytes(sent.view) == sent.contents

    @invariant()
    def what_is_used_is_what_somebody_refers_to(self) -> None:
        assert self.sender.num_bytes_used == sum(size for _, size in self.blocks.values())
        assert min(self.holes()) >= 0


@pytest.mark.slow
class TestArenaModel(ArenaModel.TestCase):  # type: ignore[misc,valid-type]  # made at run time
    """Forty runs of fifty steps."""


ArenaModel.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
