"""Golden bytes: what is stored keeps its bytes for ever, and what is not ours is refused."""

import json
from pathlib import Path
from typing import cast, get_args

import msgspec
import pytest

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.page import (
    AttemptsPage,
    MalformedPage,
    Page,
    decode_attempts,
    decode_page,
    encode_attempts,
    encode_page,
)
from ops.golden import Changed, added
from tests.golden.samples import SAMPLES, Stored
from tests.golden.schema import fields_of, layout_of

HERE = Path(__file__).parent
BYTES: dict[str, str] = json.loads((HERE / "entries.json").read_text("ascii"))
SCHEMA: dict[str, str] = json.loads((HERE / "schema.json").read_text("ascii"))
TYPES: tuple[type, ...] = (
    *get_args(e.BookEntry),
    *get_args(e.AttemptRecord),
    *get_args(c.Command),
    Page,
    AttemptsPage,
)

_BOOK_ENTRIES: tuple[type, ...] = get_args(e.BookEntry)
_RECORDS: tuple[type, ...] = get_args(e.AttemptRecord)
_ENTRY_NAMES = [name for name, value in SAMPLES.items() if isinstance(value, (*_BOOK_ENTRIES, *_RECORDS))]
_COMMAND_NAMES = [name for name, value in SAMPLES.items() if isinstance(value, get_args(c.Command))]


def topic_of(stored: type) -> str:
    """The topic a type is stored under."""
    if stored is Page:
        return "fireledger.page.v1"
    if stored is AttemptsPage:
        return "fireledger.attempts.v1"
    info = msgspec.inspect.type_info(stored)
    assert isinstance(info, msgspec.inspect.StructType)
    return str(info.tag)


def read_back(value: Stored, body: bytes) -> object:
    """Decode bytes the way the value's kind is read."""
    if isinstance(value, Page):
        return decode_page(body)
    if isinstance(value, AttemptsPage):
        return decode_attempts(body)
    if isinstance(value, get_args(c.Command)):
        return msgspec.msgpack.decode(body, type=c.Command)
    if isinstance(value, _RECORDS):
        return msgspec.msgpack.decode(body, type=e.AttemptRecord)
    return msgspec.msgpack.decode(body, type=e.BookEntry)


def test_everything_that_is_stored_has_golden_bytes() -> None:
    """Every entry, record, command and page has a line, and each line has its sample."""
    assert {topic_of(stored) for stored in TYPES} == {name.partition("/")[0] for name in BYTES}
    assert BYTES.keys() == SAMPLES.keys()
    assert len({topic_of(stored) for stored in TYPES}) == len(TYPES)


@pytest.mark.parametrize("name", SAMPLES)
def test_bytes_never_change(name: str) -> None:
    """The value gives the recorded bytes, and the recorded bytes give the value."""
    value, body = SAMPLES[name], bytes.fromhex(BYTES[name])
    assert msgspec.msgpack.encode(value) == body
    assert read_back(value, body) == value
    if isinstance(value, Page):
        assert encode_page(value) == body
    if isinstance(value, AttemptsPage):
        assert encode_attempts(value) == body


def test_no_python_name_is_stored() -> None:
    """Stored bytes know topics, never modules or classes."""
    names = {stored.__name__.encode() for stored in TYPES}
    for name, line in BYTES.items():
        body = bytes.fromhex(line)
        assert not [each for each in (b"fireledger.domain", b"domain.", b"__", *names) if each in body], name


def test_layouts_never_change() -> None:
    """Field names, types and defaults of everything stored are as recorded."""
    found = {topic_of(stored): f"{layout_of(stored)}: {'; '.join(fields_of(stored))}" for stored in TYPES}
    assert found == SCHEMA


def raw_page(name: str) -> tuple[dict[str, object], list[object]]:
    """A page that holds the named entry or record, as plain values, and that entry's list within it."""
    value = SAMPLES[name]
    book = isinstance(value, _BOOK_ENTRIES)
    holder = SAMPLES["fireledger.page.v1" if book else "fireledger.attempts.v1"]
    part = "entries" if book else "records"
    raw = cast("dict[str, object]", msgspec.msgpack.decode(msgspec.msgpack.encode(holder)))
    entry = cast("list[object]", msgspec.msgpack.decode(bytes.fromhex(BYTES[name])))
    raw[part] = [entry]
    return raw, entry


def refused(raw: dict[str, object]) -> bool:
    """Whether the plain values are no page."""
    body = msgspec.msgpack.encode(raw)
    try:
        if "records" in raw:
            decode_attempts(body)
        else:
            decode_page(body)
    except MalformedPage:
        return True
    return False


def _is_required(field: str) -> bool:
    return " = " not in field.partition("<")[0] + field.rpartition(">")[2]


@pytest.mark.parametrize("name", _ENTRY_NAMES)
def test_entries_that_are_not_ours_are_refused(name: str) -> None:
    """An unknown topic, a field too many, a required field too few and a wrong type make a page unreadable."""
    raw, entry = raw_page(name)
    assert not refused(raw)
    whole = list(entry)
    required = sum(_is_required(field) for field in fields_of(type(SAMPLES[name])))
    for wrong in (
        ["unknown.topic.v1", *whole[1:]],
        [whole[0].replace(".v1", ".v2") if isinstance(whole[0], str) else "", *whole[1:]],
        [*whole, 1],
        whole[:required],
        [whole[0], 1.5, *whole[2:]],
        [],
    ):
        entry[:] = wrong
        assert refused(raw), wrong


@pytest.mark.parametrize("name", _COMMAND_NAMES)
def test_commands_that_are_not_ours_are_refused(name: str) -> None:
    """An unknown topic, a field too many, a field too few and a wrong type make a page unreadable."""
    raw, _ = raw_page("trigger.paused.v1")
    command = cast("dict[str, object]", msgspec.msgpack.decode(bytes.fromhex(BYTES[name])))
    raw["command"] = command
    assert not refused(raw)
    fields = [field for field in command if field not in {"type", "paused", "on_resume", "fired"}]
    wrong: list[dict[str, object]] = [{**command, "type": "unknown.v1"}, {**command, "extra": 1}]
    wrong += [{key: value for key, value in command.items() if key != field} for field in ["type", *fields]]
    wrong += [{**command, field: 1.5} for field in fields]
    for each in wrong:
        raw["command"] = each
        assert refused(raw), each


@pytest.mark.parametrize("name", ["fireledger.page.v1", "fireledger.attempts.v1"])
def test_envelopes_that_are_not_ours_are_refused(name: str) -> None:
    """A page of another topic, with an extra field or without one is unreadable."""
    raw = cast("dict[str, object]", msgspec.msgpack.decode(bytes.fromhex(BYTES[name])))
    assert not refused(raw)
    assert refused({**raw, "topic": "fireledger.page.v2"})
    assert refused({**raw, "extra": 1})
    for field in raw.keys() - {"topic", "request_id", "request_sha256"}:
        if field not in {"records", "entries"}:
            assert refused({key: value for key, value in raw.items() if key != field}), field
            assert refused({**raw, field: [[]]}), field


def test_recorded_lines_are_never_rewritten() -> None:
    """The tool that records golden bytes adds and refuses; it never changes a line."""
    assert added({"a.v1": "00"}, {"a.v1": "00", "b.v1": "01"}) == {"a.v1": "00", "b.v1": "01"}
    assert added({"a.v1": "00"}, {}) == {"a.v1": "00"}
    with pytest.raises(Changed, match=r'"a\.v1"'):
        added({"a.v1": "00"}, {"a.v1": "ff"})


def test_a_page_decided_by_unknown_rules_is_refused() -> None:
    """A logic version of a later release makes a page unreadable here, instead of being folded by other rules."""
    raw = cast("dict[str, dict[str, object]]", msgspec.msgpack.decode(bytes.fromhex(BYTES["fireledger.page.v1"])))
    raw["inputs"]["logic_version"] = 2
    with pytest.raises(MalformedPage, match="logic version 2"):
        decode_page(msgspec.msgpack.encode(raw))
