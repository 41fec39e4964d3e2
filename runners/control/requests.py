"""The requests control answers: their fields, and how they are read. Unknown fields are refused.

A field that is UNSET was not given. Instants, durations and schedules travel as the texts people write, so that one
place reads them.
"""

from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from fireledger.domain.definition import Fold, Gap, Missed, Overlap
from fireledger.domain.entries import OnResume
from fireledger.domain.instants import parse_instant
from fireledger.domain.limits import REQUEST_ID_LENGTH_MAX

from ..errors import ControlRefused
from ..json_edge import Json, MalformedJson, dumps, loads
from .refusals import REQUEST_MALFORMED, read_option, refuse_unprintable, refused

LIST_ROWS_DEFAULT = 500
FOLLOW_WAIT_S_DEFAULT = 5.0
FOLLOW_WAIT_S_MAX = 10.0
"""Longest wait of one follow request: well within the time a client waits for an answer."""


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all requests."""


class CommandRequest(Request, frozen=True, kw_only=True):
    """Base of requests that change a book. ``request_id`` makes its repetition harmless for 24 hours."""

    tenant: str
    request_id: str = ""


class TenantOptions(CommandRequest, frozen=True, kw_only=True):
    """A tenant's settings: zone, quota such as ``100/s``, default jitter window, catch-up share such as ``10%``."""

    zone: str | UnsetType = UNSET
    quota: str | UnsetType = UNSET
    default_jitter: str | UnsetType = UNSET
    catch_up_share: str | UnsetType = UNSET


class TriggerRequest(CommandRequest, frozen=True, kw_only=True):
    """Base of commands about one trigger."""

    trigger: str


class TriggerOptions(TriggerRequest, frozen=True, kw_only=True):
    """A definition's options. Null takes a value back to its default. At most one of cron, every, at."""

    cron: str | UnsetType = UNSET
    every: str | UnsetType = UNSET
    at: str | UnsetType = UNSET
    anchor: str | UnsetType = UNSET
    dialect: str | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    gap: Gap | UnsetType = UNSET
    fold: Fold | UnsetType = UNSET
    target: str | UnsetType = UNSET
    payload: str | UnsetType = UNSET
    payload_base64: bytes | UnsetType = UNSET
    jitter: str | UnsetType | None = UNSET
    missed: Missed | UnsetType = UNSET
    cap: int | UnsetType = UNSET
    horizon: str | UnsetType = UNSET
    tolerance: str | UnsetType | None = UNSET
    overlap: Overlap | UnsetType = UNSET
    outcome_window: str | UnsetType = UNSET
    timeout: str | UnsetType = UNSET
    not_before: str | UnsetType | None = UNSET
    not_after: str | UnsetType | None = UNSET
    max_fires: int | UnsetType | None = UNSET
    max_attempts: int | UnsetType = UNSET
    retry_base: str | UnsetType = UNSET
    retry_factor: str | UnsetType = UNSET
    retry_cap: str | UnsetType = UNSET
    exclude: tuple[str, ...] | UnsetType | None = UNSET


class CreateTrigger(TriggerOptions, frozen=True, kw_only=True):
    """Define a trigger; ``target`` and one of cron, every, at are needed."""

    paused: bool = False


class AmendTrigger(TriggerOptions, frozen=True, kw_only=True):
    """Change the options that are given. ``dry_run`` writes nothing and tells which instants change."""

    dry_run: bool = False


class PauseTrigger(TriggerRequest, frozen=True, kw_only=True):
    """Pause a trigger."""


class ResumeTrigger(TriggerRequest, frozen=True, kw_only=True):
    """Resume a trigger."""

    on_resume: OnResume = "policy"


class DeleteTrigger(TriggerRequest, frozen=True, kw_only=True):
    """Delete a trigger."""


class TenantNamed(Request, frozen=True, kw_only=True):
    """A read of one tenant."""

    tenant: str


class TenantList(Request, frozen=True, kw_only=True):
    """Tenants by name, strictly after ``after``."""

    after: str = ""
    limit: int = LIST_ROWS_DEFAULT


class TriggerNamed(Request, frozen=True, kw_only=True):
    """A read of one trigger."""

    tenant: str
    trigger: str


class TriggerList(Request, frozen=True, kw_only=True):
    """A tenant's triggers by name, strictly after ``after``."""

    tenant: str
    after: str = ""
    limit: int = LIST_ROWS_DEFAULT


class TriggerPreview(Request, frozen=True, kw_only=True):
    """Coming instants of a trigger, strictly after ``after`` (now when not given)."""

    tenant: str
    trigger: str
    after: str | UnsetType = UNSET
    count: int = 10


class TriggerWhy(Request, frozen=True, kw_only=True):
    """Why a trigger is due at an instant, or is not."""

    tenant: str
    trigger: str
    instant: str


class PolicySimulation(Request, frozen=True, kw_only=True):
    """What each missed-fire policy makes of an outage (start, end]; of the last one recorded when none is given."""

    tenant: str
    trigger: str
    start: str | None = None
    end: str | None = None


class FiresList(Request, frozen=True, kw_only=True):
    """Fires scheduled in [since, until), newest first; ``before`` is an earlier answer's ``next``."""

    tenant: str
    trigger: str | None = None
    since: str | None = None
    until: str | None = None
    before: tuple[int, str, int] | None = None
    limit: int = LIST_ROWS_DEFAULT


class FiresShow(Request, frozen=True, kw_only=True):
    """One fire."""

    key: str


class FiresFollow(Request, frozen=True, kw_only=True):
    """Rows that changed after position ``after`` (null: only asks for the position), waiting up to ``wait_s``."""

    tenant: str
    trigger: str | None = None
    after: int | None = None
    wait_s: float = FOLLOW_WAIT_S_DEFAULT
    limit: int = LIST_ROWS_DEFAULT


class BookShow(Request, frozen=True, kw_only=True):
    """Pages of a book from page ``page`` on, within it from its entry number ``entry`` (from 0)."""

    tenant: str
    page: int = 1
    entry: int = 0
    limit: int = 100


class ZonesNamed(Request, frozen=True, kw_only=True):
    """A time-zone database: ``to`` is a stored one's version or hash, or ``packed`` the compressed bytes of any."""

    to: str | None = None
    packed: bytes | None = None


class ZonesStatus(Request, frozen=True, kw_only=True):
    """Which time-zone databases there are, and who uses them."""


class ZonesDiff(ZonesNamed, frozen=True, kw_only=True):
    """What a database would move; ``after`` is an earlier answer's ``next``, ``limit`` the triggers of an answer."""

    tenant: str | None = None
    after: tuple[str, str] | None = None
    limit: int = LIST_ROWS_DEFAULT
    instants: int = 10


class ZonesAdopt(ZonesNamed, frozen=True, kw_only=True):
    """Adopt a database in one tenant's book, or in all; ``after`` is an earlier answer's ``next``."""

    tenant: str | None = None
    everyone: bool = False
    after: str | None = None


class StatusRequest(Request, frozen=True, kw_only=True):
    """How everything is."""


_Read = TypeVar("_Read", bound=Request)


def read_json(payload: bytes) -> dict[str, Json]:
    """The request's fields; an empty message has none. Raises ControlRefused for what is no JSON object."""
    try:
        content = loads(payload) if payload else {}
    except MalformedJson as error:
        raise malformed(str(error)) from error
    if not isinstance(content, dict):
        raise malformed("not a json object")
    return content


def read_request(content: dict[str, Json], kind: type[_Read]) -> _Read:
    """A request of this kind. Raises ControlRefused naming the field that is missing, unknown or of another type."""
    try:
        request = msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise malformed(_lower_first(str(error))) from error
    if isinstance(request, CommandRequest):
        _check_request_id(request.request_id)
    return request


def _check_request_id(request_id: str) -> None:
    if len(request_id) > REQUEST_ID_LENGTH_MAX:
        raise refused(f"the request id has {len(request_id)} characters", hint=f"use at most {REQUEST_ID_LENGTH_MAX}")
    refuse_unprintable("the request id", request_id, "give a name on one line")


def read_bounds(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The bounds of a list of fires. Raises ControlRefused for one that is no instant, and when they are crossed."""
    low = None if since is None else read_option("--since", since, parse_instant)
    high = None if until is None else read_option("--until", until, parse_instant)
    if low is not None and high is not None and low > high:
        raise refused(f"--since {since} is later than --until {until}", hint="give the earlier of the two to --since")
    return low, high


def request_hash(subject: str, content: dict[str, Json]) -> bytes:
    """SHA-256 of the canonical form of a command, its request id left out: what tells a repetition from another."""
    named = {name: value for name, value in content.items() if name != "request_id"}
    return sha256(dumps({"subject": subject, "request": named}, sort_keys=True)).digest()


def malformed(reason: str) -> ControlRefused:
    """The request itself is wrong."""
    return refused(f"the request is malformed: {reason}", hint="use one release for both", code=REQUEST_MALFORMED)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
