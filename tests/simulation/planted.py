"""Bugs that a careless change could bring in, planted by patching functions, to show that runs find each."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from unittest import mock

from msgspec import structs

from fireledger.domain import (
    backfill,
    ceilings,
    conclusions,
    fold_definitions,
    fold_fires,
    owed,
    page,
    trigger_decision,
)
from fireledger.domain import entries as e
from fireledger.domain.definition import Retry
from fireledger.domain.draft import Draft, fire_id
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import SECOND, Instant
from fireledger.domain.jitter import release_of
from fireledger.domain.lanes import Allowances
from fireledger.domain.page import PageInputs
from fireledger.domain.retry import retry_at
from fireledger.domain.state import Ceiling, State, TriggerState
from fireledger.runners.attempt_tokens import AttemptTokens
from fireledger.runners.dispatcher import dispatcher
from fireledger.runners.dispatcher.tasks import Task
from fireledger.runners.scheduler.pacing import LaneRate

Plant = Callable[[], AbstractContextManager[object]]


def jitter_early() -> AbstractContextManager[object]:
    """Jitter moves a release to before its scheduled instant."""

    def early(key: FireKey, window: int, gap_to_next: int | None) -> Instant:
        """The offset is taken away instead of added."""
        return Instant(2 * key.scheduled - release_of(key, window, gap_to_next))

    return mock.patch("fireledger.domain.owed.release_of", early)


def late_pages_act() -> AbstractContextManager[object]:
    """A page takes effect whenever it was stamped."""

    def always(inputs: PageInputs, stamped_at: int) -> bool:
        """Yes."""
        del inputs, stamped_at
        return True

    return _everywhere("is_effective", always, page)


def pause_ignored() -> AbstractContextManager[object]:
    """A paused trigger is decided all the same."""

    def deciding(trigger: TriggerState) -> bool:
        """Pauses do not count."""
        return not (trigger.deleted or trigger.quarantine is not None)

    return mock.patch.object(TriggerState, "deciding", property(deciding))


def overlap_ignored() -> AbstractContextManager[object]:
    """What waits is released although a fire of its trigger is open."""
    decision = trigger_decision.TriggerDecision
    close_windows = decision.__dict__["_close_windows"]

    def forgetful(self: object) -> None:
        """Open fires are forgotten once their windows were looked at."""
        close_windows(self)
        self.__dict__["_open"].clear()

    return mock.patch.object(decision, "_close_windows", forgetful)


def resend_unguarded() -> AbstractContextManager[object]:
    """What another process started is sent again at once."""

    def at_once(task: Task) -> int:
        """No timeout, no delay."""
        assert task.started_at is not None
        return task.started_at

    return mock.patch.object(dispatcher, "_overdue_at", at_once)


def cap_off_by_one() -> AbstractContextManager[object]:
    """One more missed instant than the cap fires."""
    decision = trigger_decision.TriggerDecision
    rightly = decision.__dict__["_caught_up"]

    def caught_up(self: object, missed: list[owed.Owed], *, has_on_time: bool) -> frozenset[int]:
        """Under fire-all the bound is one too high."""
        definition = self.__dict__["_definition"]
        higher = structs.replace(definition, cap=definition.cap + 1)
        with mock.patch.dict(self.__dict__, _definition=higher):
            found: frozenset[int] = rightly(self, missed, has_on_time=has_on_time)
            return found

    return mock.patch.object(decision, "_caught_up", caught_up)


def retry_early() -> AbstractContextManager[object]:
    """The next attempt comes after half of the wait."""

    def early(retry: Retry, key: FireKey, *, failed_attempt: int, failed_at: int, retry_after: int | None) -> Instant:
        """Half way between the failure and the right instant."""
        at = retry_at(retry, key, failed_attempt=failed_attempt, failed_at=failed_at, retry_after=retry_after)
        return Instant((failed_at + at) // 2)

    return mock.patch.object(conclusions, "retry_at", early)


def pace_ignored() -> AbstractContextManager[object]:
    """Whatever waits is released, however many tokens the buckets hold."""

    def allows(self: Allowances, lane: e.Lane, *, over_quota: bool) -> bool:
        """Only shedding counts."""
        return not self.sheds(lane, over_quota=over_quota)

    return mock.patch.object(Allowances, "allows", allows)


def ceiling_ignored() -> AbstractContextManager[object]:
    """What is suspended is decided and released all the same."""
    stack = ExitStack()

    def own(trigger: TriggerState) -> bool:
        """Suspensions do not count."""
        return not (trigger.deleted or trigger.quarantine is not None or trigger.paused)

    def deciding(state: State, trigger: TriggerState) -> bool:
        """Nor do the tenant's."""
        del state
        return trigger.deciding

    stack.enter_context(mock.patch.object(TriggerState, "deciding", property(own)))
    stack.enter_context(mock.patch.object(State, "deciding", deciding))
    return stack


def held_retried() -> AbstractContextManager[object]:
    """A timer tries a held fire again."""
    rightly = fold_fires.fire_held

    def held(draft: Draft, entry: e.FireHeld) -> None:
        """The fire is held, and its next attempt due soon."""
        rightly(draft, entry)
        fires = draft.fires(entry.trigger).open
        fire = fires.get(fire_id(entry))
        if fire is not None:
            fires[fire_id(entry)] = structs.replace(fire, retry_at=draft.now + 2 * SECOND)

    return mock.patch.object(fold_fires, "fire_held", held)


def let_go_forgotten() -> AbstractContextManager[object]:
    """A fire that a person let go on is held again by the answer that was there before."""
    rightly = fold_fires.held_fire_released

    def released(draft: Draft, entry: e.HeldFireReleased) -> None:
        """Its next attempt waits, like any other."""
        rightly(draft, entry)
        fires = draft.fires(entry.trigger).open
        fires[fire_id(entry)] = structs.replace(fires[fire_id(entry)], let_go=False)

    return mock.patch.object(fold_fires, "held_fire_released", released)


def name_revives() -> AbstractContextManager[object]:
    """A trigger that takes a deleted one's name goes on with its fires."""
    rightly = fold_definitions.trigger_created

    def created(draft: Draft, entry: e.TriggerCreated) -> None:
        """They are its own from now on."""
        rightly(draft, entry)
        fires = draft.fires(entry.trigger).open
        fires.update({name: structs.replace(fire, orphaned=False) for name, fire in fires.items()})

    return mock.patch.object(fold_definitions, "trigger_created", created)


def raised_late() -> AbstractContextManager[object]:
    """A command about ceilings ends a suspension that was over long before."""

    def ends(before: tuple[Ceiling, ...]) -> bool:
        """No."""
        del before
        return False

    return mock.patch.object(ceilings, "_ends_with_its_period", ends)


def token_unchecked() -> AbstractContextManager[object]:
    """Any token will do."""

    def matches(self: AttemptTokens, token: str, key: FireKey, attempt: int) -> bool:
        """Yes."""
        del self, token, key, attempt
        return True

    return mock.patch.object(AttemptTokens, "matches", matches)


def quota_unmarked() -> AbstractContextManager[object]:
    """No fire is ever above the quota."""

    def over_quota(self: Allowances) -> bool:
        """No."""
        del self
        return False

    return mock.patch.object(Allowances, "over_quota", over_quota)


def backfill_skips_one() -> AbstractContextManager[object]:
    """A backfill leaves out every fifth instant."""
    rightly = backfill.backfill_next

    def skipping(timeline: owed.Timeline, fired: tuple[e.Span, ...], after: int | None = None) -> int | None:
        """The next one, or the one after it."""
        found = rightly(timeline, fired, after)
        return rightly(timeline, fired, found) if found is not None and found // SECOND % 5 == 0 else found

    return mock.patch.object(trigger_decision, "backfill_next", skipping)


def first_comes_first() -> AbstractContextManager[object]:
    """Whoever asks for a part of a lane's rate gets all there is, however long others have waited."""
    rightly = LaneRate.grant

    def grant(self: LaneRate, tenant: str, now_s: float, *, share: float) -> int:
        """No turns: those that wait are forgotten."""
        self.__dict__["_waiting"].clear()
        self.__dict__["_askers"].clear()
        return rightly(self, tenant, now_s, share=share)

    return mock.patch.object(LaneRate, "grant", grant)


def _everywhere(name: str, replacement: object, *modules: object) -> AbstractContextManager[object]:
    """Patch a function in the modules that look it up by name."""
    stack = ExitStack()
    original = getattr(modules[0], name)
    for module in [*sys.modules.values()]:
        if getattr(module, name, None) is original and module.__name__.startswith("fireledger."):
            stack.enter_context(mock.patch.object(module, name, replacement))
    return stack


PLANTS: dict[str, Plant] = {
    "jitter-early": jitter_early,
    "late-pages-act": late_pages_act,
    "pause-ignored": pause_ignored,
    "overlap-ignored": overlap_ignored,
    "resend-unguarded": resend_unguarded,
    "cap-off-by-one": cap_off_by_one,
    "retry-early": retry_early,
    "pace-ignored": pace_ignored,
    "ceiling-ignored": ceiling_ignored,
    "held-retried": held_retried,
    "let-go-forgotten": let_go_forgotten,
    "name-revives": name_revives,
    "raised-late": raised_late,
    "token-unchecked": token_unchecked,
    "quota-unmarked": quota_unmarked,
    "backfill-skips-one": backfill_skips_one,
    "first-comes-first": first_comes_first,
}
