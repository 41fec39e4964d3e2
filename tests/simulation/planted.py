"""Six bugs that a careless change could bring in, planted by patching functions, to show that runs find each."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest import mock

from msgspec import structs

from fireledger.domain import owed, page, trigger_decision
from fireledger.domain.identifiers import FireKey
from fireledger.domain.instants import Instant
from fireledger.domain.jitter import release_of
from fireledger.domain.page import PageInputs
from fireledger.domain.state import TriggerState
from fireledger.runners.dispatcher import dispatcher
from fireledger.runners.dispatcher.tasks import Task

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


def _everywhere(name: str, replacement: object, *modules: object) -> AbstractContextManager[object]:
    """Patch a function in the modules that look it up by name."""
    import sys
    from contextlib import ExitStack

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
}
