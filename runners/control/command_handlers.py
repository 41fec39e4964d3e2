"""The requests that change a book: each read, checked, turned into a domain command, written, and answered."""

from msgspec import UNSET

from fireledger.domain import commands as c
from fireledger.domain.definition import TenantSettings
from fireledger.domain.entries import BookEntry
from fireledger.domain.evolve import fold_entries
from fireledger.domain.identifiers import check_tenant, check_trigger
from fireledger.domain.preview import Previewed
from fireledger.domain.rejections import Rejection, RejectionCode
from fireledger.domain.state import State, TriggerState, same_timing

from ..dispatcher.policy import TargetPolicy
from ..json_edge import Json
from ..known_zones import KnownZones
from . import requests as r
from .answers import Answer, changes, policy_sentence, shown_coming, tenant_answer, trigger_answer
from .commands import Asked, Build, CommandWriter, Done
from .definitions import (
    amended_definition,
    check_ever_due,
    check_options,
    check_second_opinion,
    check_target_address,
    given_schedule,
    new_definition,
    new_settings,
)
from .policy_answers import state_of
from .refusals import from_rejection

DRY_RUN_INSTANTS = 10
"""Coming instants that a dry run compares."""
DELETED_SINCE = "The trigger was deleted since."
"""What is said of it to who repeats a request of before."""


class CommandHandlers:
    """One method for each subject of a command. Each raises ControlRefused and other OperationalErrors."""

    def __init__(self, writer: CommandWriter, zones: KnownZones, policy: TargetPolicy) -> None:
        self._writer = writer
        self._zones = zones
        self._policy = policy

    async def create_tenant(self, content: dict[str, Json]) -> Answer:
        """Open a book."""
        request = r.read_request(content, r.TenantOptions)
        settings = new_settings(request, TenantSettings())
        # Another control may have stored a newer database.
        await self._zones.renew()
        database = self._zones.current

        def build(_state: State, _now: int) -> c.Command:
            """The command as the book stands now."""
            database.zone(settings.zone)
            return c.CreateTenant(settings=settings, zone_version=database.version, zone_sha256=database.sha256)

        done = await self._execute("control.tenant.create", request, content, build)
        return {**tenant_answer(done.book), **about(done)}

    async def amend_tenant(self, content: dict[str, Json]) -> Answer:
        """Change a tenant's settings: those that are given."""
        request = r.read_request(content, r.TenantOptions)

        def build(state: State, _now: int) -> c.Command:
            """The command as the book stands now."""
            if state.settings is None:
                raise no_tenant(request.tenant)
            settings = new_settings(request, state.settings)
            self._zones.database(state.zone_sha256).zone(settings.zone)
            return c.AmendTenant(settings=settings)

        done = await self._execute("control.tenant.amend", request, content, build)
        return {**tenant_answer(done.book), **about(done)}

    async def create_trigger(self, content: dict[str, Json]) -> Answer:
        """Define a trigger."""
        request = r.read_request(content, r.CreateTrigger)
        self._check_options(request)

        def build(state: State, now: int) -> c.Command:
            """The command as the book stands now."""
            if state.settings is None:
                raise no_tenant(request.tenant)
            definition = new_definition(request, now=now, zone=state.settings.zone)
            check_ever_due(definition, self._zones.database(state.zone_sha256).zone(definition.zone), now=now)
            return c.CreateTrigger(trigger=request.trigger, definition=definition, paused=request.paused)

        return self._trigger_answer(request, await self._execute("control.trigger.create", request, content, build))

    async def amend_trigger(self, content: dict[str, Json]) -> Answer:
        """Change a trigger's options: those that are given. A dry run tells what would change."""
        request = r.read_request(content, r.AmendTrigger)
        self._check_options(request)

        def build(state: State, now: int) -> c.AmendTrigger:
            """The command as the book stands now."""
            trigger = live_trigger(state, request.tenant, request.trigger)
            definition = amended_definition(request, trigger.definition, now=now)
            zone = self._zones.database(state.zone_sha256).zone(definition.zone)
            if not same_timing(trigger.segments[-1], definition):
                check_ever_due(definition, zone, now=now)
            return c.AmendTrigger(trigger=request.trigger, definition=definition)

        if request.dry_run:
            check_tenant(request.tenant)
            book = await self._writer.catch_up(request.tenant)
            now = self._writer.now_for(book)
            command = build(book.state, now)
            entries = self._writer.check(book, command)
            return self._dry_run(book.state, command, now, entries)
        return self._trigger_answer(request, await self._execute("control.trigger.amend", request, content, build))

    async def pause_trigger(self, content: dict[str, Json]) -> Answer:
        """Pause a trigger."""
        request = r.read_request(content, r.PauseTrigger)
        command = c.PauseTrigger(trigger=request.trigger)
        return await self._plain("control.trigger.pause", request, content, command)

    async def resume_trigger(self, content: dict[str, Json]) -> Answer:
        """Resume a trigger."""
        request = r.read_request(content, r.ResumeTrigger)
        command = c.ResumeTrigger(trigger=request.trigger, on_resume=request.on_resume)
        return await self._plain("control.trigger.resume", request, content, command)

    async def delete_trigger(self, content: dict[str, Json]) -> Answer:
        """Delete a trigger."""
        request = r.read_request(content, r.DeleteTrigger)
        command = c.DeleteTrigger(trigger=request.trigger)
        return await self._plain("control.trigger.delete", request, content, command)

    async def _plain(
        self, subject: str, request: r.TriggerRequest, content: dict[str, Json], command: c.Command
    ) -> Answer:
        check_trigger(request.trigger)

        def build(state: State, _now: int) -> c.Command:
            """The command as the book stands now."""
            if state.settings is None:
                raise no_tenant(request.tenant)
            return command

        done = await self._execute(subject, request, content, build)
        return self._trigger_answer(request, done)

    async def _execute(self, subject: str, request: r.CommandRequest, content: dict[str, Json], build: Build) -> Done:
        return await carry_out(self._writer, subject, request, content, build)

    def _check_options(self, request: r.TriggerOptions) -> None:
        """What depends on nothing but the request."""
        check_tenant(request.tenant)
        check_trigger(request.trigger)
        check_options(request)
        schedule = given_schedule(request, anchor=0)
        if schedule is not None:
            check_second_opinion(schedule)
        if request.target is not UNSET:
            check_target_address(request.target, self._policy)

    def _trigger_answer(self, request: r.TriggerRequest, done: Done) -> Answer:
        """The trigger as it is now; of one that is deleted, by the command or since, only its name."""
        state = done.book.state
        trigger = self._writer.same_trigger(done, request.trigger)
        if trigger is None:
            since = {} if isinstance(request, r.DeleteTrigger) else {"sentence": DELETED_SINCE}
            return {"tenant": request.tenant, "trigger": request.trigger, "state": "deleted", **since, **about(done)}
        return {
            **trigger_answer(state, trigger, self._zones.library, now=done.now),
            "state": state_of(state, trigger),
            "sentence": policy_sentence(trigger.definition),
            **about(done),
        }

    def _dry_run(self, state: State, command: c.AmendTrigger, now: int, entries: tuple[BookEntry, ...]) -> Answer:
        def rows(state: State) -> list[Previewed]:
            trigger = live_trigger(state, state.tenant, command.trigger)
            return shown_coming(state, trigger, self._zones.library, now=now, count=DRY_RUN_INSTANTS).rows

        before, after = rows(state), rows(fold_entries(state, entries, now))
        return {
            "tenant": state.tenant,
            "trigger": command.trigger,
            "dry_run": True,
            "changed": bool(entries),
            "changes": changes(before, after, count=DRY_RUN_INSTANTS),
            "sentence": policy_sentence(command.definition),
        }


async def carry_out(
    writer: CommandWriter, subject: str, request: r.CommandRequest, content: dict[str, Json], build: Build
) -> Done:
    """Write the command that a request leads to. Raises what ``CommandWriter.execute`` raises, and MalformedName."""
    check_tenant(request.tenant)
    return await writer.execute(Asked(request.tenant, request.request_id, r.request_hash(subject, content)), build)


async def done_before(
    writer: CommandWriter, subject: str, request: r.CommandRequest, content: dict[str, Json]
) -> Done | None:
    """What the same request led to before, under its request id; None: it was not asked. Raises as ``carry_out``.

    For requests that need a look at their trigger first: it may be gone, or another, when they are repeated.
    """
    check_tenant(request.tenant)
    return await writer.repeated(Asked(request.tenant, request.request_id, r.request_hash(subject, content)))


def about(done: Done) -> Answer:
    """What an answer says of the command itself."""
    return {"page": done.page, "changed": done.page is not None, "repeated": done.repeated}


def no_tenant(tenant: str) -> Exception:
    """The tenant does not exist."""
    return from_rejection(
        Rejection(
            RejectionCode.TENANT_MISSING,
            f'tenant "{tenant}" does not exist',
            f"create it: fireledger tenant create {tenant}",
        )
    )


def live_trigger(state: State, tenant: str, name: str) -> TriggerState:
    """A trigger that exists. Raises ControlRefused."""
    if state.settings is None:
        raise no_tenant(tenant)
    trigger = state.live(check_trigger(name))
    if trigger is None:
        raise from_rejection(
            Rejection(
                RejectionCode.TRIGGER_MISSING,
                f'trigger "{tenant}/{name}" does not exist',
                f"see what exists: fireledger trigger list {tenant}",
            )
        )
    return trigger
