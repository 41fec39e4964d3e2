"""Names and keys: tenants, triggers, fire keys and slots. All are computed, none is generated."""

import re
import zlib
from dataclasses import dataclass

from .instants import Instant, MalformedInstant, format_instant, parse_instant
from .limits import SLOT_COUNT

_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_TRIGGER = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_TARGET_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class MalformedName(ValueError):
    """A tenant, trigger, target name or fire key that does not have the required form; the message says which."""


def check_tenant(text: str) -> str:
    """Return the tenant's name, or raise MalformedName."""
    if _TENANT.fullmatch(text) is None:
        raise MalformedName(
            f'"{text[:80]}" is not a tenant name; use 1 to 63 of a-z, 0-9 and "-", not beginning with "-"'
        )
    return text


def check_trigger(text: str) -> str:
    """Return the trigger's name, or raise MalformedName."""
    if _TRIGGER.fullmatch(text) is None:
        raise MalformedName(
            f'"{text[:140]}" is not a trigger name; use 1 to 128 of letters, digits, "_" and "-" (ASCII)'
        )
    return text


def check_target_name(text: str) -> str:
    """Return the NAME of a ``nats:NAME`` target, or raise MalformedName."""
    if _TARGET_NAME.fullmatch(text) is None:
        raise MalformedName(
            f'"{text[:80]}" is not a NATS target name; use 1 to 64 of letters, digits, "_" and "-" (ASCII)'
        )
    return text


def parse_trigger_path(text: str) -> tuple[str, str]:
    """Split ``TENANT/TRIGGER``. Raises MalformedName."""
    tenant, slash, trigger = text.partition("/")
    if not slash:
        raise MalformedName(f'"{text[:200]}" names no trigger; write TENANT/TRIGGER')
    return check_tenant(tenant), check_trigger(trigger)


def slot_of(tenant: str) -> int:
    """The tenant's slot, 0 to 1023: CRC-32 of the name modulo 1024, for ever."""
    return zlib.crc32(tenant.encode()) % SLOT_COUNT


def book_subject(tenant: str) -> str:
    """The subject of a tenant's book. Raises MalformedName."""
    return f"book.{slot_of(check_tenant(tenant))}.{tenant}"


@dataclass(frozen=True, slots=True, order=True)
class FireKey:
    """The identity of a fire: tenant, trigger, scheduled instant (microseconds) and sequence.

    Sequence 0 is the scheduled fire; manual and backfill fires take the trigger's next run number.
    The text form is the idempotency key on every attempt.
    """

    tenant: str
    trigger: str
    scheduled: Instant
    sequence: int = 0

    def __str__(self) -> str:
        return f"{self.tenant}/{self.trigger}/{format_instant(self.scheduled)}/{self.sequence}"


def parse_fire_key(text: str) -> FireKey:
    """Read a fire key's text form. Raises MalformedName; a key that is not in canonical form is refused."""
    parts = text.split("/")
    if len(parts) == 4 and re.fullmatch(r"[0-9]{1,18}", parts[3], re.ASCII):
        try:
            key = FireKey(check_tenant(parts[0]), check_trigger(parts[1]), parse_instant(parts[2]), int(parts[3]))
        except MalformedInstant as error:
            raise MalformedName(f'"{text[:300]}" is not a fire key: {error}') from error
        if str(key) == text:
            return key
    raise MalformedName(f'"{text[:300]}" is not a fire key; write TENANT/TRIGGER/2026-11-30T09:00:00Z/0')
