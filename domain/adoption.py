"""Adopting a time-zone database: one entry in a book, naming every trigger whose next instant it moves."""

from msgspec.structs import replace

from . import commands as c
from . import entries as e
from .due import exhausted
from .inputs import Inputs
from .limits import ADOPTIONS_MAX, MOVED_NAMED_MAX
from .owed import Timeline
from .rejections import Rejection, RejectionCode
from .state import Adoption, State, TriggerState
from .tick import UndecidableTrigger, guarded
from .zones import MalformedZone, UnknownZone, UnknownZoneData, ZoneLibrary


def adopt_zone_data(state: State, command: c.AdoptZoneData, inputs: Inputs) -> tuple[e.BookEntry, ...] | Rejection:
    """The entry that adopts the database, none if it is the present one, or why it is refused."""
    if command.sha256 == state.zone_sha256:
        return ()
    refused = _refuse(state, command, inputs.zones)
    if refused is not None:
        return refused
    # Looked up before any trigger is: data that this node has not loaded is no reason to leave a trigger out.
    for adoption in state.adoptions:
        inputs.zones.database(adoption.zone_sha256)
    moved = moved_instants(state, adopted(state, command, inputs.recorded.now), inputs.zones)
    named = tuple(moved[:MOVED_NAMED_MAX])
    return (e.ZoneDataAdopted(version=command.version, sha256=command.sha256, moved=named, moved_count=len(moved)),)


def adopted(state: State, command: c.AdoptZoneData, now: int) -> State:
    """The state as the adoption at ``now`` would leave it."""
    return replace(
        state,
        zone_version=command.version,
        adoptions=(*state.adoptions, Adoption(now, command.sha256)),
        now=max(state.now, now),
    )


def moved_instants(before: State, after: State, zones: ZoneLibrary) -> list[e.MovedInstant]:
    """The live triggers whose next undecided instant differs between two states, by name."""
    moved: list[e.MovedInstant] = []
    for name in sorted(before.triggers):
        trigger = before.live(name)
        if trigger is None or trigger.quarantine is not None or exhausted(trigger):
            continue
        try:
            old, new = (guarded(name, _next, state, trigger, zones) for state in (before, after))
        except UndecidableTrigger:
            # Nobody can say where it was or will be; the next tick puts it into quarantine.
            continue
        if old != new:
            moved.append(e.MovedInstant(trigger=name, old=old, new=new))
    return moved


def _next(state: State, trigger: TriggerState, zones: ZoneLibrary) -> int | None:
    found = [Timeline(state, trigger, segment, zones).next_undecided() for segment in trigger.segments]
    return min((instant for instant in found if instant is not None), default=None)


def _refuse(state: State, command: c.AdoptZoneData, zones: ZoneLibrary) -> Rejection | None:
    """Refuse data that is not there, or lacks a zone that the book needs."""
    if len(state.adoptions) >= ADOPTIONS_MAX:
        return Rejection(RejectionCode.VALUE_REFUSED, f"a book adopts at most {ADOPTIONS_MAX} time-zone databases")
    needed = {segment.zone for trigger in state.triggers.values() for segment in trigger.segments}
    if state.settings is not None:
        needed.add(state.settings.zone)
    try:
        database = zones.database(command.sha256)
        for name in sorted(needed):
            database.zone(name)
    except UnknownZoneData as error:
        return Rejection(RejectionCode.ZONE_UNKNOWN, str(error), "store it first: fireledger tz adopt")
    except UnknownZone as error:
        return Rejection(
            RejectionCode.ZONE_UNKNOWN,
            f'time-zone database "{command.version}" lacks a zone in use: {error}',
            "amend the triggers in that zone first",
        )
    except MalformedZone as error:
        return Rejection(RejectionCode.ZONE_UNKNOWN, str(error), "use a released tzdata package")
    return None
