"""Pages: the envelope of a book and of an attempts log, their bytes, their chain, and when they take effect.

A page is one message. Its body is msgpack, holds the envelope, and is what the next page's hash covers;
message headers are only copies. A page takes effect when the broker stamped it within its writer's clock
interval, widened by the two bounds in ``limits``; otherwise it stays in the chain and changes nothing.
"""

from hashlib import sha256
from typing import Final, Literal

import msgspec

from .commands import Command
from .entries import AttemptRecord, BookEntry
from .limits import ATTEMPTS_PAGE_BYTES_MAX, PAGE_BYTES_MAX, STAMP_EARLY_MAX, STAMP_LATE_MAX
from .logic_version import KNOWN_LOGIC_VERSIONS

BOOK_PAGE_TOPIC: Final = "fireledger.page.v1"
ATTEMPTS_PAGE_TOPIC: Final = "fireledger.attempts.v1"
_BOOK_SEED = b"fireledger.book.v1"
_ATTEMPTS_SEED = b"fireledger.attempts.v1"


class MalformedPage(ValueError):
    """Bytes that are not a page this release can read: bad encoding, unknown topic or field, out of bounds."""


class PageTooLarge(ValueError):
    """A page over its bounds; nothing was written."""


class Quarantine(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A trigger that the writer could not decide, and why; an input, since an exception depends on the node."""

    trigger: str
    cause: str


class PageInputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every input of a page's decision, so that it can be made again.

    ``now`` is the page's instant; ``earliest`` and ``latest`` the writer's clock interval; ``as_of`` the
    LEDGER sequence up to which attempts are observed; ``as_of_read_at`` the earliest instant at which the
    stream leader was asked for it (0: not asked); ``allowances`` releases granted per lane; ``trigger_limit`` how many
    triggers are looked at in which something is due beside fires that wait; ``step`` an
    accepted clock step in microseconds; ``owner`` and ``epoch`` the writer and its lease.
    """

    now: int
    earliest: int
    latest: int
    clock_source: str
    as_of: int
    owner: str
    epoch: int = 0
    as_of_read_at: int = 0
    allowances: dict[str, int] = {}
    entry_limit: int = 10_000
    trigger_limit: int = 10_000
    shedding_level: int = 0
    logic_version: int = 1
    quarantine: tuple[Quarantine, ...] = ()
    step: int = 0


class Page(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One page of a tenant's book."""

    topic: Literal["fireledger.page.v1"] = BOOK_PAGE_TOPIC
    tenant: str
    number: int
    commit_id: str
    previous_sha256: bytes
    previous_stamped_at: int
    inputs: PageInputs
    command: Command
    request_id: str = ""
    request_sha256: bytes = b""
    entries: tuple[BookEntry, ...]


class AttemptsPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One page of a slot's attempts: started and result records of the slot's tenants."""

    topic: Literal["fireledger.attempts.v1"] = ATTEMPTS_PAGE_TOPIC
    slot: int
    number: int
    commit_id: str
    previous_sha256: bytes
    previous_stamped_at: int
    owner: str
    epoch: int
    records: tuple[AttemptRecord, ...]


_ENCODER = msgspec.msgpack.Encoder()
_PAGE_DECODER = msgspec.msgpack.Decoder(Page)
_ATTEMPTS_DECODER = msgspec.msgpack.Decoder(AttemptsPage)


def encode_page(page: Page) -> bytes:
    """The page's body. Raises PageTooLarge above PAGE_BYTES_MAX."""
    body = _ENCODER.encode(page)
    if len(body) > PAGE_BYTES_MAX:
        raise PageTooLarge(f'page {page.number} of book "{page.tenant}" is {len(body)} bytes; at most {PAGE_BYTES_MAX}')
    return body


def decode_page(body: bytes) -> Page:
    """Read a book page. Raises MalformedPage, also for one that a later release decided by other rules."""
    try:
        page = _PAGE_DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedPage(f"not a book page: {error}") from error
    if page.inputs.logic_version not in KNOWN_LOGIC_VERSIONS:
        raise MalformedPage(f"decided by logic version {page.inputs.logic_version}, which this release does not know")
    return page


def encode_attempts(page: AttemptsPage) -> bytes:
    """The attempts page's body. Raises PageTooLarge above ATTEMPTS_PAGE_BYTES_MAX."""
    body = _ENCODER.encode(page)
    if len(body) > ATTEMPTS_PAGE_BYTES_MAX:
        raise PageTooLarge(f"attempts page {page.number} of slot {page.slot} is {len(body)} bytes")
    return body


def decode_attempts(body: bytes) -> AttemptsPage:
    """Read an attempts or reports page. Raises MalformedPage."""
    try:
        return _ATTEMPTS_DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedPage(f"not an attempts page: {error}") from error


def body_hash(body: bytes) -> bytes:
    """SHA-256 of a page's body, which the next page carries."""
    return sha256(body).digest()


def book_seed(tenant: str) -> bytes:
    """What page 1 of the tenant's book carries as its predecessor's hash."""
    return sha256(_BOOK_SEED + tenant.encode()).digest()


def attempts_seed(subject: str) -> bytes:
    """What page 1 of an attempts or reports subject carries as its predecessor's hash."""
    return sha256(_ATTEMPTS_SEED + subject.encode()).digest()


def is_effective(inputs: PageInputs, stamped_at: int) -> bool:
    """Whether a page that the broker stamped at this instant takes effect (DESIGN section 1)."""
    return inputs.earliest - STAMP_EARLY_MAX <= stamped_at <= inputs.latest + STAMP_LATE_MAX


def entry_key(tenant: str, page: int, index: int) -> str:
    """A stable id of an entry: the book's page and the entry's place in it."""
    return f"{tenant}/{page}/{index}"
