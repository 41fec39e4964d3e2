"""What control answers: the sentence about policies, and what an amendment changes."""

import pytest

from fireledger.domain.commands import SetCeiling
from fireledger.domain.definition import Definition, Missed, Overlap, seal_plain
from fireledger.domain.entries import FireReleased
from fireledger.domain.instants import MINUTE, Instant, format_instant
from fireledger.domain.page import Quarantine
from fireledger.domain.preview import Previewed, coming
from fireledger.domain.recurrence.schedule import IntervalSchedule
from fireledger.runners.control.answers import changes, policy_sentence, preview_notes, trigger_answer
from fireledger.runners.control.refusals import code_of, from_value_error
from fireledger.runners.errors import BrokerUnavailable, RolledBack
from tests.unit.domain.given import PAUSE, TICK, Given, create, cron, result, started


def definition(missed: Missed, overlap: Overlap, *, horizon: int = 30 * MINUTE) -> Definition:
    """A definition with these policies."""
    return Definition(
        schedule=IntervalSchedule(source="1h", period=60 * MINUTE, anchor=0),
        zone="UTC",
        gap="skip",
        fold="both",
        target="nats:x",
        payload=seal_plain(b""),
        missed=missed,
        overlap=overlap,
        horizon=horizon,
        cap=5,
    )


@pytest.mark.parametrize(
    "missed,words",
    [
        ("fire-once-now", "the newest missed instant fires once for all that were missed"),
        ("fire-all", "the newest 5 missed instants all fire, oldest first"),
        ("skip", "missed instants are skipped and recorded"),
    ],
)
def test_one_sentence_tells_of_outages(missed: Missed, words: str) -> None:
    """The policy in plain words, with the horizon."""
    sentence = policy_sentence(definition(missed, "skip"))
    assert sentence.startswith(f"After an outage, {words}, and those older than 30m expire unfired; ")
    assert sentence.count(".") == 1


@pytest.mark.parametrize(
    "overlap,words", [("skip", "is skipped and recorded"), ("queue", "waits for it"), ("allow", "fires beside it")]
)
def test_the_sentence_tells_of_overlap(overlap: Overlap, words: str) -> None:
    """What happens when a fire is due while another is open."""
    assert words in policy_sentence(definition("skip", overlap)).partition("; ")[2]


def previewed(*instants: tuple[int, int]) -> list[Previewed]:
    """Instants with their releases."""
    return [Previewed(Instant(at), Instant(release), f"local {at}") for at, release in instants]


def test_changes_name_each_instant() -> None:
    """An instant of both stays, or moves when only its release differs; else it vanishes or appears."""
    found = changes(previewed((0, 0), (10, 10), (20, 20)), previewed((0, 0), (10, 15), (25, 25)), count=10)
    assert [row["change"] for row in found] == ["stays", "moves", "vanishes", "appears"]
    assert found[1]["was_release"] == "1970-01-01T00:00:00.000010Z"


def test_what_lies_behind_the_shorter_view_is_not_called_a_change() -> None:
    """Where one list was cut, nothing is said of what comes after its end."""
    before = previewed((0, 0), (10, 10), (20, 20))
    after = previewed((0, 0), (5, 5), (10, 10))
    assert [row["change"] for row in changes(before, after, count=3)] == ["stays", "appears", "stays"]


def test_every_operational_error_has_a_code() -> None:
    """The kind of error in kebab-case."""
    assert code_of(BrokerUnavailable("x")) == "broker-unavailable"
    assert code_of(RolledBack("x")) == "rolled-back"


def test_a_value_error_of_no_known_kind_is_a_defect() -> None:
    """It is raised again rather than blamed on the caller."""
    with pytest.raises(ValueError, match="surprise"):
        from_value_error(ValueError("surprise"))


def notes_of(book: Given) -> list[str]:
    """What a preview of the trigger says besides."""
    found = coming(book.state, book.trigger(), book.zones, now=book.at, count=10)
    return preview_notes(book.state, book.trigger(), found)


def test_a_preview_says_what_becomes_of_a_pause() -> None:
    """Since when, by which policy what is released meanwhile is judged, and how many wait for that already."""
    book = Given(create(cron("0 * * * *", missed="fire-all"))).given(PAUSE, at="09:10:00")
    assert len(notes_of(book)) == 1
    assert notes_of(book)[0].startswith("the trigger is paused since 2026-11-30T09:10:00Z: it fires again once")
    assert "judged by its policy fire-all within the horizon 1h" in notes_of(book)[0]
    book.at = book.instant("11:30:00")
    assert notes_of(book)[1:] == ["not listed are those released already, 2 in all, which wait for the end of that"]


def test_a_preview_says_what_becomes_of_a_quarantine() -> None:
    """Why, how it ends, and that what is released meanwhile is skipped."""
    book = Given(create(cron("0 * * * *")))
    book.when(TICK, at="09:10:00", quarantine=(Quarantine("t", "ValueError: odd"),))
    assert notes_of(book) == [
        (
            "the trigger is in quarantine (ValueError: odd): it fires again once it is amended, "
            "and what is released until then is skipped"
        )
    ]


def test_a_preview_says_how_many_fires_are_left() -> None:
    """What is owed counts as the decision would have it; a used-up maximum is said as such."""
    book = Given(create(cron("0 * * * *", max_fires=2)))
    assert notes_of(book) == ["2 left of --max-fires 2"]
    book.at = book.instant("10:10:00")
    assert notes_of(book) == [
        "not listed are those released already, 1 in all, which wait to be decided",
        "1 left of --max-fires 2",
    ]
    book.ticks("10:10:00", "11:00:00")
    assert notes_of(book) == ["all of --max-fires 2 are used"]


@pytest.mark.parametrize("owner", ["t", None])
def test_what_comes_next_of_a_suspended_trigger_comes_after_the_suspension(owner: str | None) -> None:
    """What falls into it is skipped, so it is not promised; the same for a ceiling of the tenant."""
    given = Given(create(cron("0 * * * *"))).given(SetCeiling(trigger=owner, per="day", amount=0), at="09:10:00")
    shown = trigger_answer(given.state, given.trigger(), given.zones, now=given.instant("09:11:00"))
    assert shown["suspended_until"] == "2026-12-01T00:00:00Z"
    following = shown["next"]
    assert isinstance(following, list)
    assert [one["scheduled"] for one in following if isinstance(one, dict)][:1] == ["2026-12-01T00:00:00Z"]


def test_the_instant_at_which_a_suspension_ends_is_shown_and_fires() -> None:
    """A ceiling's next period begins with it."""
    given = Given(create(cron("0 * * * *")), start="2026-11-30T22:30:00Z")
    given.given(SetCeiling(trigger="t", per="day", amount=5), at="2026-11-30T22:30:00Z")
    given.given(TICK, at="2026-11-30T23:00:00Z")
    begun = started("2026-11-30T23:00:00Z", "2026-11-30T23:00:01Z", 9)
    ended = result("2026-11-30T23:00:00Z", "2026-11-30T23:00:02Z", 10, "succeeded", cost=5)
    given.when(TICK, at="2026-11-30T23:00:10Z", observed=(begun, ended))
    shown = trigger_answer(given.state, given.trigger(), given.zones, now=given.instant("2026-11-30T23:01:00Z"))
    following = shown["next"]
    assert isinstance(following, list)
    assert [one["scheduled"] for one in following if isinstance(one, dict)][:1] == ["2026-12-01T00:00:00Z"]
    found = given.when(TICK, at="2026-12-01T00:00:00Z").entries()
    assert [format_instant(one.scheduled) for one in found if isinstance(one, FireReleased)] == ["2026-12-01T00:00:00Z"]
