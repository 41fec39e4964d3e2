"""Entries and definitions in their outside forms."""

import json
from typing import cast, get_args

import pytest
from msgspec.structs import replace

from fireledger.domain import entries as e
from fireledger.domain.commands import Command, Tick
from fireledger.domain.definition import Retry
from fireledger.domain.instants import format_instant
from fireledger.domain.page import Page, PageInputs
from fireledger.projections.book_text import (
    definition_readable,
    entry_readable,
    factor_text,
    page_readable,
    settings_readable,
)
from tests.golden.samples import PLAIN, SAMPLES, SETTINGS

COMMANDS = {name: sample for name, sample in SAMPLES.items() if isinstance(sample, get_args(Command))}
ENTRIES = {name: sample for name, sample in SAMPLES.items() if isinstance(sample, get_args(e.BookEntry))}
T0 = 1_800_000_000_000_000
PAGE = Page(
    tenant="acme",
    number=3,
    commit_id="c",
    previous_sha256=b"",
    previous_stamped_at=0,
    inputs=PageInputs(now=T0, earliest=T0, latest=T0 + 1, clock_source="declared", as_of=7, owner="s"),
    command=Tick(),
    entries=(),
)


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_has_a_json_form(name: str) -> None:
    """The topic comes first, and no instant is left as a number."""
    shown = entry_readable(cast("e.BookEntry", ENTRIES[name]))
    assert next(iter(shown)) == "topic"
    assert not [part for part in json.dumps(shown).split() if part.rstrip(',}]"').isdigit() and len(part) > 15]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_shows_the_person_whom_its_command_names(name: str) -> None:
    """Whoever asks for it, where a command has that; nobody else."""
    command = cast("Command", COMMANDS[name])
    shown = page_readable(replace(PAGE, command=command), b"", stamped_at=T0, sequence=9)
    assert shown["asked_by"] == getattr(command, "by", None)


def test_a_page_shows_every_input_of_its_decision() -> None:
    """Each by its own name; an instant, a step and what was not asked for in their outside forms."""
    inputs = replace(
        PAGE.inputs,
        as_of_read_at=T0,
        allowances={"backfill": 3, "catch-up": 0},
        shedding_level=2,
        step=-3_600_000_000,
    )
    page = replace(PAGE, inputs=inputs)
    shown = page_readable(page, b"", stamped_at=T0, sequence=9)
    assert set(PageInputs.__struct_fields__) <= set(shown)
    assert (shown["allowances"], shown["shedding_level"]) == ({"backfill": 3, "catch-up": 0}, 2)
    assert (shown["entry_limit"], shown["as_of_read_at"], shown["step"]) == (10_000, "2027-01-15T08:00:00Z", "-1h")
    idle = page_readable(replace(page, inputs=replace(inputs, as_of_read_at=0, step=0)), b"", stamped_at=T0, sequence=9)
    assert (idle["as_of_read_at"], idle["step"]) == (None, None)


def test_the_entries_of_policies_are_readable() -> None:
    """Spans, periods and retries are told in instants; whoever did it by name."""
    spans = (e.Span(T0, T0 + 60_000_000),)
    started = e.BackfillStarted(
        trigger="t",
        backfill="january",
        start=T0,
        end=T0 + 1,
        only_missing=True,
        rate_per_second=5,
        grant_holder="ann",
        fired=spans,
    )
    assert entry_readable(started)["fired"] == [{"first": "2027-01-15T08:00:00Z", "last": "2027-01-15T08:01:00Z"}]
    period = e.SpendPeriodBegun(trigger=None, per="day", start=T0, end=T0)
    assert entry_readable(period)["end"] == format_instant(T0)
    retry = e.RetryScheduled(trigger="t", scheduled=T0, attempt=2, at=T0)
    assert entry_readable(retry)["at"] == format_instant(T0)
    asked = e.FireRequested(trigger="t", scheduled=T0, sequence=1, definition_page=2, by="ann")
    assert entry_readable(asked)["by"] == "ann"


def test_retries_and_shares_are_told_as_they_are_written() -> None:
    """A factor as a decimal, a share in per cent, waits as durations."""
    shown = definition_readable(replace(PLAIN, retry=Retry(attempts=3, base=1_500_000, factor=150, cap=60_000_000)))
    told = (shown["max_attempts"], shown["retry_base"], shown["retry_factor"], shown["retry_cap"])
    assert told == (3, "1s500ms", "1.5", "1m")
    assert settings_readable(SETTINGS)["catch_up_share"] == "25%"
    assert [factor_text(each) for each in (100, 110, 125, 200, 1_000)] == ["1", "1.1", "1.25", "2", "10"]
