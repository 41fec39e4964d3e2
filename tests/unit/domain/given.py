"""Given these pages, when this command, then these entries: how tests of the domain are written.

Every page that a test makes is checked for what must hold of all pages: its bytes read back to the same
page, the decision made again from the bytes gives the same bytes, a hint of what is due changes nothing,
and *now* never goes back.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import msgspec

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain.book import Book, empty_book, fold_page, next_page, page_now
from fireledger.domain.decide import decide
from fireledger.domain.definition import Definition, TenantSettings, seal_plain
from fireledger.domain.due import next_due
from fireledger.domain.inputs import Inputs
from fireledger.domain.instants import DAY, MILLISECOND, format_instant, parse_duration, parse_instant
from fireledger.domain.page import Page, PageInputs, Quarantine, decode_page, encode_page
from fireledger.domain.recurrence.cron_text import parse_cron
from fireledger.domain.recurrence.interval_text import parse_interval, parse_one_off
from fireledger.domain.recurrence.rules import default_rules
from fireledger.domain.recurrence.schedule import Schedule
from fireledger.domain.rejections import Rejection, RejectionCode
from fireledger.domain.state import State, TriggerState
from fireledger.domain.tick import UndecidableTrigger
from fireledger.domain.zones import ZoneLibrary
from fireledger.runners.zone_package import load_packaged_zones

TENANT = "acme"
START = "2026-11-30T09:00:00Z"
When = int | str
"""An instant: microseconds, RFC 3339 text, or the time of day alone on the day the book began."""


@cache
def zones() -> ZoneLibrary:
    """Return the packaged time-zone database in a library."""
    return ZoneLibrary(load_packaged_zones())


@dataclass(frozen=True, slots=True)
class Written:
    """A page as the log holds it."""

    body: bytes
    stamped_at: int
    sequence: int


class Given:
    """A tenant's book in the making. ``result`` is what the last command led to, ``written`` all its pages."""

    def __init__(
        self,
        *commands: c.Command,
        start: str = START,
        settings: TenantSettings | None = None,
        tenant: str = TENANT,
        library: ZoneLibrary | None = None,
    ) -> None:
        self.start = parse_instant(start)
        self.book: Book = empty_book(tenant)
        self.written: list[Written] = []
        self.result: tuple[e.BookEntry, ...] | Rejection = ()
        self.zones = library or zones()
        self.at: int = self.start
        database = self.zones.current
        opening = c.CreateTenant(
            settings=settings or TenantSettings(), zone_version=database.version, zone_sha256=database.sha256
        )
        self.given(opening, *commands, at=start)

    @property
    def state(self) -> State:
        """The book's state."""
        return self.book.state

    def trigger(self, name: str = "t") -> TriggerState:
        """Return a trigger's state."""
        return self.state.triggers[name]

    def entries(self) -> tuple[e.BookEntry, ...]:
        """Return the entries of the last command, which was not refused."""
        assert not isinstance(self.result, Rejection), self.result
        return self.result

    def instant(self, when: When) -> int:
        """Read an instant; a time of day lies on the day of the book's first page."""
        if isinstance(when, int):
            return when
        return parse_instant(when if "T" in when else f"{format_instant(self.start)[:10]}T{when}Z")

    def given(self, *commands: c.Command, at: When | None = None) -> "Given":
        """Make pages of commands, none of which is refused."""
        for command in commands:
            self.when(command, at=self.at if at is None else at)
            assert not isinstance(self.result, Rejection), self.result
        return self

    def when(
        self,
        command: c.Command,
        *,
        at: When,
        observed: tuple[e.AttemptObserved, ...] = (),
        stamped_at: When | None = None,
        as_of_read_at: When = 0,
        entry_limit: int = 10_000,
        quarantine: tuple[Quarantine, ...] = (),
        request_id: str = "",
        request_sha256: bytes = b"",
        step: int = 0,
        allowances: dict[str, int] | None = None,
        shedding_level: int = 0,
    ) -> "Given":
        """Decide a command at an instant of the writer's clock, and write the page it leads to, if any.

        The broker stamps the page a millisecond later unless ``stamped_at`` says otherwise.
        """
        self.at = self.instant(at)
        recorded = PageInputs(
            now=page_now(self.state, self.at),
            earliest=self.at,
            latest=self.at + 20 * MILLISECOND,
            clock_source="simulated",
            as_of=max([self.state.as_of, *(entry.source_sequence for entry in observed)]),
            owner="writer",
            as_of_read_at=self.instant(as_of_read_at),
            entry_limit=entry_limit,
            quarantine=quarantine,
            step=step,
            allowances=allowances or {},
            shedding_level=shedding_level,
        )
        inputs = Inputs(
            recorded=recorded,
            zones=self.zones,
            observed=observed,
            request_id=request_id,
            request_sha256=request_sha256,
        )
        self.result = decide(self.state, command, inputs)
        assert decide(self.state, command, replace(inputs, due=self._hint(recorded.now))) == self.result
        if isinstance(self.result, tuple) and self.result:
            page = next_page(
                self.book,
                commit_id=f"commit-{self.book.head.number + 1}",
                inputs=recorded,
                command=command,
                entries=self.result,
                request_id=request_id,
                request_sha256=request_sha256,
            )
            self._write(page, self.at + MILLISECOND if stamped_at is None else self.instant(stamped_at))
        return self

    def ticks(self, *at: When, as_of_read_at: When = 0) -> "Given":
        """Tick at each of these instants; ``result`` collects the entries of all."""
        collected: list[e.BookEntry] = []
        for each in at:
            collected.extend(self.when(c.Tick(), at=each, as_of_read_at=as_of_read_at).entries())
        self.result = tuple(collected)
        return self

    def then(self, *expected: e.BookEntry | str) -> "Given":
        """Check the entries of the last command, each given whole or as its short text (see ``brief``)."""
        found = self.entries()
        short = [self.brief(entry) for entry in found]
        wanted = [each if isinstance(each, str) else self.brief(each) for each in expected]
        assert short == wanted, f"found {short}, wanted {wanted}"
        assert [entry for entry, each in zip(found, expected, strict=True) if not isinstance(each, str)] == [
            each for each in expected if not isinstance(each, str)
        ]
        return self

    def then_refused(self, code: RejectionCode) -> "Given":
        """Check that the last command was refused with this code, and wrote nothing."""
        assert isinstance(self.result, Rejection), self.result
        assert self.result.code == code
        return self

    def then_undecidable(self, command: c.Command, *, at: When) -> UndecidableTrigger:
        """Check that the command names a trigger that cannot be decided, and return the exception."""
        try:
            self.when(command, at=at)
        except UndecidableTrigger as error:
            return error
        raise AssertionError("every trigger could be decided")

    def next_due(self, name: str = "t") -> str | None:
        """Return when the trigger is next due, as short text."""
        found = next_due(self.state, self.trigger(name), self.zones)
        return None if found is None else self.short(found)

    def short(self, instant: int | None) -> str:
        """Write an instant: the time alone on the book's first day."""
        if instant is None:
            return "none"
        text = format_instant(instant)
        return text[11:-1] if instant // DAY == self.start // DAY else text

    def brief(self, entry: e.BookEntry) -> str:
        """Write an entry as a short line: what happened, to which trigger, at which instant, and why."""
        match entry:
            case e.FireReleased():
                waited = "" if entry.decides else " after waiting"
                if entry.attempt > 1:
                    waited = f" attempt {entry.attempt}"
                return f"released {entry.trigger} {self.short(entry.scheduled)} {entry.cause}{waited}"
            case e.FireDecided():
                return f"decided {entry.trigger} {self.short(entry.scheduled)} {entry.cause}"
            case e.FireWithdrawn():
                return f"withdrawn {entry.trigger} {self.short(entry.scheduled)} {entry.state} {entry.cause}"
            case e.FireFinished():
                return f"finished {entry.trigger} {self.short(entry.scheduled)} {entry.outcome}"
            case e.RetryScheduled():
                return f"retry {entry.trigger} {self.short(entry.scheduled)} attempt {entry.attempt}"
            case e.FireHeld():
                return f"held {entry.trigger} {self.short(entry.scheduled)}"
            case e.AttemptObserved():
                return f"observed {entry.trigger} {self.short(entry.scheduled)} {entry.result or entry.record}"
            case e.SegmentSettled():
                return f"settled {entry.trigger} {self.short(entry.until)}"
            case e.InstantsResolved():
                return self._brief_range(entry)
            case _:
                name = getattr(entry, "trigger", None)
                return type(entry).__name__ if name is None else f"{type(entry).__name__} {name}"

    def _brief_range(self, entry: e.InstantsResolved) -> str:
        stretch = self.short(entry.first)
        if entry.count > 1:
            stretch = f"{stretch}-{self.short(entry.last)} x{entry.count}"
        into = "" if entry.into is None else f" into {self.short(entry.into)}"
        return f"{entry.state} {entry.trigger} {stretch} {entry.cause}{into}"

    def _hint(self, now: int) -> frozenset[str]:
        due = set[str]()
        for name, trigger in self.state.triggers.items():
            try:
                at = next_due(self.state, trigger, self.zones)
            except ValueError:
                at = now
            if at is not None and at <= now:
                due.add(name)
        return frozenset(due)

    def _write(self, page: Page, stamped_at: int) -> None:
        before = self.state
        body = encode_page(page)
        assert decode_page(body) == page
        assert encode_page(decode_page(body)) == body
        again = decided_again(before, decode_page(body), self.zones)
        assert not isinstance(again, Rejection), again
        assert again == page.entries
        assert encode_page(replace_entries(page, again)) == body
        sequence = self.book.head.sequence + 1
        self.book = fold_page(self.book, body, stamped_at=stamped_at, sequence=sequence).book
        assert self.state.now >= before.now
        self.written.append(Written(body, stamped_at, sequence))


def replace_entries(page: Page, entries: tuple[e.BookEntry, ...]) -> Page:
    """Return the page with other entries."""
    return msgspec.structs.replace(page, entries=entries)


def decided_again(state: State, page: Page, library: ZoneLibrary) -> tuple[e.BookEntry, ...] | Rejection:
    """Make a page's decision again, from the state before it and what the page records."""
    observed: list[e.AttemptObserved] = []
    for entry in page.entries:
        if not isinstance(entry, e.AttemptObserved):
            break
        observed.append(entry)
    inputs = Inputs(
        recorded=page.inputs,
        zones=library,
        observed=tuple(observed),
        request_id=page.request_id,
        request_sha256=page.request_sha256,
    )
    return decide(state, page.command, inputs)


def define(schedule: Schedule, zone: str = "UTC") -> Definition:
    """Return a plain definition of a schedule: default rules and policies, a NATS target."""
    gap, fold = default_rules(schedule)
    return Definition(
        schedule=schedule, zone=zone, gap=gap, fold=fold, target="nats:demo", payload=seal_plain(b"payload")
    )


def changed(definition: Definition, **changes: object) -> Definition:
    """Return the definition with some fields replaced; a misspelt one is refused."""
    return msgspec.structs.replace(definition, **changes)


def cron(text: str, zone: str = "UTC", **changes: object) -> Definition:
    """Return the definition of a cron schedule."""
    return changed(define(parse_cron(text), zone), **changes)


def every(text: str, anchor: str = START, **changes: object) -> Definition:
    """Return the definition of an interval on its anchor's grid."""
    return changed(define(parse_interval(text, parse_instant(anchor))), **changes)


def once(text: str, zone: str = "UTC", **changes: object) -> Definition:
    """Return the definition of a one-off at a local time."""
    return changed(define(parse_one_off(text), zone), **changes)


def create(definition: Definition, trigger: str = "t", *, paused: bool = False) -> c.CreateTrigger:
    """Return the command that creates a trigger."""
    return c.CreateTrigger(trigger=trigger, definition=definition, paused=paused)


def amend(definition: Definition, trigger: str = "t") -> c.AmendTrigger:
    """Return the command that gives a trigger this definition."""
    return c.AmendTrigger(trigger=trigger, definition=definition)


PAUSE = c.PauseTrigger(trigger="t")
RESUME = c.ResumeTrigger(trigger="t")
RESUME_SKIPPING = c.ResumeTrigger(trigger="t", on_resume="skip")
DELETE = c.DeleteTrigger(trigger="t")
TICK = c.Tick()


def length(text: str) -> int:
    """Read a duration."""
    return parse_duration(text)


def each(start: str, step: str, count: int) -> Iterable[int]:
    """Yield instants a step apart, the first one at ``start``."""
    first, width = parse_instant(start), parse_duration(step)
    return (first + place * width for place in range(count))


def started(
    scheduled: When,
    stamped_at: When,
    sequence: int,
    *,
    trigger: str = "t",
    resend: bool = False,
    attempt: int = 1,
    run: int = 0,
) -> e.AttemptObserved:
    """Return the observation that an attempt at a fire was started; ``run`` is the fire's own sequence."""
    return e.AttemptObserved(
        trigger=trigger,
        scheduled=_instant(scheduled),
        sequence=run,
        attempt=attempt,
        record="started",
        stamped_at=_instant(stamped_at),
        source_sequence=sequence,
        resend=resend,
    )


def result(
    scheduled: When,
    stamped_at: When,
    sequence: int,
    kind: e.ResultKind,
    *,
    trigger: str = "t",
    attempt: int = 1,
    run: int = 0,
    retry_after: int | None = None,
    cost: int | None = None,
) -> e.AttemptObserved:
    """Return the observation of an attempt's result; ``run`` is the fire's own sequence."""
    return e.AttemptObserved(
        trigger=trigger,
        scheduled=_instant(scheduled),
        sequence=run,
        attempt=attempt,
        record="result",
        stamped_at=_instant(stamped_at),
        source_sequence=sequence,
        result=kind,
        retry_after=retry_after,
        cost=cost,
    )


def _instant(when: When) -> int:
    if isinstance(when, int):
        return when
    return parse_instant(when if "T" in when else f"{START[:10]}T{when}Z")
