"""Commands: what they add to the book, each reason to refuse them, and their repetition."""

import msgspec
import pytest

from fireledger.domain import commands as c
from fireledger.domain import entries as e
from fireledger.domain import limits
from fireledger.domain.book import Book
from fireledger.domain.decide import repetition
from fireledger.domain.definition import TenantSettings, seal_plain
from fireledger.domain.instants import DAY, HOUR, SECOND, parse_instant
from fireledger.domain.rejections import Rejection, RejectionCode
from fireledger.domain.state import RememberedRequest
from tests.unit.domain.given import (
    DELETE,
    PAUSE,
    RESUME,
    START,
    TICK,
    Given,
    amend,
    changed,
    create,
    cron,
    every,
    once,
)

MINUTELY = cron("* * * * *")


def test_a_book_begins_with_its_settings_and_zone_data() -> None:
    """Creating a tenant stores its settings and the time-zone database it uses from now on."""
    book = Given()
    book.then("TenantCreated", "ZoneDataAdopted")
    assert book.state.zone_sha256 == book.zones.current.sha256
    assert book.state.settings == TenantSettings()
    assert (book.state.page, book.state.tenant) == (1, "acme")


def test_a_created_trigger_keeps_its_definition_and_page() -> None:
    """A trigger's definition page is the page that created it, and nothing is due at its creation."""
    book = Given(create(MINUTELY))
    book.then(e.TriggerCreated(trigger="t", definition=MINUTELY))
    assert book.trigger().definition_page == 2
    assert book.next_due() == "09:01:00"


def test_an_amended_trigger_has_the_new_definition() -> None:
    """An amendment replaces the definition and its page."""
    book = Given(create(MINUTELY)).given(amend(changed(MINUTELY, target="nats:other")), at="09:00:30")
    book.then("TriggerAmended t")
    assert book.trigger().definition.target == "nats:other"
    assert book.trigger().definition_page == 3


def test_saving_the_same_definition_again_is_no_change() -> None:
    """An amendment to what is already so writes no page."""
    book = Given(create(MINUTELY)).when(amend(MINUTELY), at="09:00:30")
    assert book.result == ()
    assert book.state.page == 2


def test_saving_the_same_settings_again_is_no_change() -> None:
    """Amending a tenant to its own settings writes no page; other settings hold from that page on."""
    book = Given().when(c.AmendTenant(settings=TenantSettings()), at="09:01:00")
    assert book.result == ()
    book.given(c.AmendTenant(settings=TenantSettings(zone="Europe/Rome")), at="09:02:00").then("TenantAmended")
    assert book.state.settings == TenantSettings(zone="Europe/Rome")


def test_a_tick_before_the_tenant_exists_decides_nothing() -> None:
    """There is nothing to decide in an empty book."""
    book = Given()
    empty = Given()
    empty.book = Book("acme", msgspec.structs.replace(book.state, settings=None), empty.book.head)
    assert empty.when(TICK, at="09:10:00").result == ()


@pytest.mark.parametrize(
    "command,code",
    [
        (create(MINUTELY), RejectionCode.TRIGGER_EXISTS),
        (amend(MINUTELY, "other"), RejectionCode.TRIGGER_MISSING),
        (c.PauseTrigger(trigger="other"), RejectionCode.TRIGGER_MISSING),
        (c.ResumeTrigger(trigger="other"), RejectionCode.TRIGGER_MISSING),
        (c.DeleteTrigger(trigger="other"), RejectionCode.TRIGGER_MISSING),
        (RESUME, RejectionCode.NOT_PAUSED),
        (create(MINUTELY, "no spaces"), RejectionCode.VALUE_REFUSED),
        (create(MINUTELY, "x" * 129), RejectionCode.VALUE_REFUSED),
        (create(once("2027-03-28T02:30", "Europe/Rome", gap="skip"), "n"), RejectionCode.NEVER_DUE),
        (create(once("2020-01-01T00:00"), "n"), RejectionCode.WHOLLY_PAST),
        (create(changed(MINUTELY, not_after=parse_instant(START)), "n"), RejectionCode.WHOLLY_PAST),
        (create(cron("* * * * *", "Mars/Olympus"), "n"), RejectionCode.ZONE_UNKNOWN),
        (c.AmendTenant(settings=TenantSettings(zone="Mars/Olympus")), RejectionCode.ZONE_UNKNOWN),
        (c.AmendTenant(settings=TenantSettings(quota_per_second=0)), RejectionCode.VALUE_REFUSED),
        (c.AmendTenant(settings=TenantSettings(default_jitter=DAY + 1)), RejectionCode.VALUE_REFUSED),
        (c.CreateTenant(settings=TenantSettings(), zone_version="", zone_sha256=""), RejectionCode.TENANT_EXISTS),
    ],
    ids=str,
)
def test_a_command_is_refused_with_a_stable_code(command: c.Command, code: RejectionCode) -> None:
    """A refused command has a code, a message and an exit status, and writes nothing."""
    book = Given(create(MINUTELY)).when(command, at="09:00:01")
    book.then_refused(code)
    assert isinstance(book.result, Rejection)
    assert book.result.message[:1] in {*"abcdefghijklmnopqrstuvwxyz", '"', "-"}
    assert book.result.exit_status in {3, 4, 5}
    assert book.state.page == 2


@pytest.mark.parametrize(
    "changes,option",
    [
        ({"target": "ftp://x"}, "--target"),
        ({"target": "http://user:word@host/"}, "--target"),
        ({"target": "http://host:99999/"}, "--target"),
        ({"target": "http://höst/"}, "--target"),
        ({"target": "nats:a.b"}, "--target"),
        ({"target": "http://host/" + "x" * 2048}, "--target"),
        ({"payload": seal_plain(b"x" * (limits.PAYLOAD_BYTES_MAX + 1))}, "--payload"),
        ({"jitter": -1}, "--jitter"),
        ({"jitter": limits.JITTER_MAX + 1}, "--jitter"),
        ({"horizon": limits.HORIZON_MAX + 1}, "--horizon"),
        ({"tolerance": -1}, "--tolerance"),
        ({"outcome_window": SECOND - 1}, "--outcome-window"),
        ({"timeout": 0}, "--timeout"),
        ({"cap": 0}, "--cap"),
        ({"cap": limits.CAP_MAX + 1}, "--cap"),
        ({"max_fires": 0}, "--max-fires"),
        ({"not_before": 2 * DAY, "not_after": DAY}, "--not-after"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_out_of_bounds_is_refused_by_its_option(changes: dict[str, object], option: str) -> None:
    """A definition with a value out of bounds is refused, naming the option, at creation and at amendment."""
    for command in (create(changed(MINUTELY, **changes), "n"), amend(changed(MINUTELY, **changes))):
        book = Given(create(MINUTELY)).when(command, at="09:00:01").then_refused(RejectionCode.VALUE_REFUSED)
        assert isinstance(book.result, Rejection)
        assert book.result.message.startswith(option)


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "https://host.example:8443/path?x=1"},
        {"target": "http://[::1]:8080/"},
        {"payload": seal_plain(b"x" * limits.PAYLOAD_BYTES_MAX)},
        {"jitter": limits.JITTER_MAX},
        {"horizon": limits.HORIZON_MAX},
        {"cap": limits.CAP_MAX},
        {"max_fires": limits.MAX_FIRES_MAX},
        {"not_before": parse_instant(START), "not_after": parse_instant(START) + DAY},
    ],
    ids=str,
)
def test_a_value_at_its_bound_is_accepted(changes: dict[str, object]) -> None:
    """Bounds are inclusive."""
    Given(create(changed(MINUTELY, **changes))).then("TriggerCreated t")


def test_commands_before_the_tenant_exists_are_refused() -> None:
    """Nothing can be asked of a book that does not exist."""
    book = Given()
    book.book = Book("acme", msgspec.structs.replace(book.state, settings=None), book.book.head)
    book.when(create(MINUTELY), at="09:00:01").then_refused(RejectionCode.TENANT_MISSING)


def test_a_paused_trigger_is_not_paused_again() -> None:
    """A second pause is refused, and the first goes on."""
    book = Given(create(MINUTELY), PAUSE).when(PAUSE, at="09:00:05").then_refused(RejectionCode.ALREADY_PAUSED)
    assert book.trigger().paused


def test_a_closed_book_takes_no_commands() -> None:
    """After a closing page commands are refused and ticks decide nothing."""
    book = Given(create(MINUTELY))
    book.book = Book("acme", msgspec.structs.replace(book.state, closed=True), book.book.head)
    book.when(PAUSE, at="09:10:00").then_refused(RejectionCode.BOOK_CLOSED)
    assert book.when(TICK, at="09:10:00").result == ()


def test_a_tenant_has_a_bounded_number_of_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound a new trigger is refused; a deleted one makes room; names are bounded for themselves."""
    monkeypatch.setattr("fireledger.domain.decide.TRIGGERS_PER_TENANT_MAX", 2)
    monkeypatch.setattr("fireledger.domain.decide.TRIGGER_NAMES_MAX", 3)
    book = Given(create(MINUTELY), create(MINUTELY, "u"))
    book.when(create(MINUTELY, "v"), at="09:00:01").then_refused(RejectionCode.TOO_MANY_TRIGGERS)
    book.given(DELETE, at="09:00:02").given(create(MINUTELY, "v"), c.DeleteTrigger(trigger="v"), at="09:00:03")
    book.when(create(MINUTELY, "w"), at="09:00:04").then_refused(RejectionCode.TOO_MANY_TRIGGERS)
    book.when(create(MINUTELY), at="09:00:05").then("TriggerCreated t")


def test_a_finished_one_off_can_still_be_amended_in_other_respects() -> None:
    """Only a new schedule has to lie in the future: the target of a one-off that is waiting can be changed."""
    book = Given(create(once("2026-11-30T10:00"))).given(PAUSE, at="09:59:00")
    book.given(amend(once("2026-11-30T10:00", target="nats:other")), at="10:30:00").then("TriggerAmended t")
    book.when(amend(once("2026-11-30T10:15")), at="10:30:01").then_refused(RejectionCode.WHOLLY_PAST)


def test_a_repeated_request_changes_nothing() -> None:
    """The same request under the same id writes no second page, and leads to the page of the first."""
    book = Given()
    book.when(create(MINUTELY), at="09:00:01", request_id="r1", request_sha256=b"a")
    page = book.state.page
    book.when(create(MINUTELY), at="09:00:02", request_id="r1", request_sha256=b"a")
    assert book.result == ()
    assert book.state.page == page
    assert repetition(book.state, "r1", b"a") == RememberedRequest(parse_instant("2026-11-30T09:00:01Z"), b"a", page)
    assert repetition(book.state, "r2", b"a") is None
    assert repetition(book.state, "", b"a") is None


def test_another_request_under_the_same_id_is_refused() -> None:
    """A request id stands for one request."""
    book = Given()
    book.when(create(MINUTELY), at="09:00:01", request_id="r1", request_sha256=b"a")
    book.when(create(MINUTELY, "u"), at="09:00:02", request_id="r1", request_sha256=b"b")
    book.then_refused(RejectionCode.REQUEST_ID_REUSED)


@pytest.mark.parametrize("after,remembered", [(24 * HOUR - 1, True), (24 * HOUR, False)])
def test_a_request_id_is_remembered_for_a_day_of_now(after: int, remembered: bool) -> None:
    """Up to 24 hours the id answers for its request, whether or not other requests came; then it is free."""
    book = Given(create(MINUTELY))
    book.when(PAUSE, at="09:00:01", request_id="r1", request_sha256=b"a")
    at = book.instant("09:00:01") + after
    assert (repetition(book.state, "r1", b"a", now=at) is not None) == remembered
    book.when(RESUME, at=at, request_id="r1", request_sha256=b"b")
    if remembered:
        book.then_refused(RejectionCode.REQUEST_ID_REUSED)
    else:
        book.then("TriggerResumed t")
        assert set(book.state.requests) == {"r1"}


def test_forgotten_requests_do_not_count_against_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A book full of remembered requests refuses further ids, until these are a day old."""
    monkeypatch.setattr("fireledger.domain.decide.REQUESTS_REMEMBERED_MAX", 2)
    book = Given()
    for number in range(2):
        book.when(create(MINUTELY, f"t{number}"), at="09:00:01", request_id=f"r{number}", request_sha256=b"a")
    book.when(create(MINUTELY, "u"), at="09:00:02", request_id="r9", request_sha256=b"a")
    book.then_refused(RejectionCode.TOO_MANY_REQUESTS)
    book.when(create(MINUTELY, "v"), at="09:00:02").then("TriggerCreated v")
    book.when(create(MINUTELY, "u"), at="2026-12-01T09:00:01Z", request_id="r9", request_sha256=b"a")
    book.then("TriggerCreated u")
    assert set(book.state.requests) == {"r9"}


def test_a_command_is_decided_at_the_books_now_when_the_clock_is_behind() -> None:
    """Commands proceed at the book's now if the writer's clock is behind it."""
    book = Given(create(MINUTELY)).given(PAUSE, at="09:30:00").given(RESUME, at="09:10:00")
    assert book.state.now == book.instant("09:30:00")


def test_an_interval_without_instants_left_is_refused() -> None:
    """An interval is bounded by not-after like any schedule."""
    late = every("10m", not_after=parse_instant(START) + 5 * 60 * SECOND)
    Given().when(create(late), at="09:00:00").then_refused(RejectionCode.WHOLLY_PAST)


def test_a_tick_with_nothing_due_writes_nothing() -> None:
    """A tick gives no entries, hence no page, when nothing is due."""
    book = Given(create(MINUTELY)).when(TICK, at="09:00:59")
    assert book.result == ()
    assert book.state.page == 2
