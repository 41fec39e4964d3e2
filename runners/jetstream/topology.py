"""The one table of streams, buckets, accounts, users and rights this release needs.

Everything that talks about a broker's set-up (the embedded broker's configuration, provisioning, the check
that every runner makes at its start) reads this table. It is pure data: it must not import a client.

Each user lives in a broker account of its own and reaches the ledger's account through service imports, one
per subject of its rights. Permissions alone are not enough: a broker does not check the *reply* subject of a
request, so inside one account any user with a read right could have an answer delivered into a book
(measured). Across an import the reply is replaced by one the broker makes up, so it can name nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fireledger.domain.identifiers import check_tenant
from fireledger.domain.instants import SECOND
from fireledger.domain.limits import ATTEMPT_TIMEOUT_MAX

from ..json_edge import Json

_NANOSECONDS_PER_S = 1_000_000_000
_DAY_S = 86_400

LEDGER = "LEDGER"
FEED = "FEED"
FEED_AGE_S = 7 * _DAY_S
"""How long the feed is kept: it is derived, and a subscriber away for longer asks the history."""
EXECUTOR_MEMORY_S = 2 * _DAY_S
"""How long an executor remembers a fire key: longer than any horizon (24 h) plus any outcome window (24 h)."""
DUPLICATE_WINDOW_MS = 100
"""The broker's smallest: its own deduplication is not relied on, and its index costs memory and start-up time."""
RESPONSE_EXPIRY_S = ATTEMPT_TIMEOUT_MAX // SECOND + 60
"""How long the broker lets work be answered: the longest attempt, and a minute."""
REPORT_EXPIRY_S = 60
"""How long the broker lets a report of an outcome be answered."""

LEDGER_ACCOUNT = "FIRELEDGER"
"""The account that holds every stream and bucket; only the administrator's user is inside."""
SYSTEM_ACCOUNT = "SYSTEM"
STORE_ACCOUNT = "STORE"
"""A JetStream account of its own for the ``eventsourcing`` store: whatever it does, it cannot reach the ledger."""
VOID_ACCOUNT = "VOID"
"""Nobody is here. An account without streams would answer every request to the streams' interface with "not
enabled", racing the answer of the ledger's account; importing that interface from here keeps it quiet."""


class UserName(StrEnum):
    """The users of every broker; executors' users are named by ``executor_user``."""

    ADMIN = "admin"
    SYSTEM = "system"
    STORE = "store"
    CONTROL = "control"
    SCHEDULER = "scheduler"
    DISPATCHER = "dispatcher"
    PROJECTOR = "projector"
    SHADOW = "shadow"
    REPLAY = "replay"
    OPERATOR = "operator"


# Streams and buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Every setting of one stream that matters. Durations in seconds; -1 means without limit."""

    name: str
    subjects: tuple[str, ...]
    replicas: int = 1
    max_age_s: int = 0
    max_messages_per_subject: int = -1
    max_message_bytes: int = -1
    discard: str = "new"
    allow_atomic: bool = False
    allow_rollup: bool = False
    deny_purge: bool = False

    def as_request(self) -> dict[str, Json]:
        """The configuration as the broker's interface spells it, every field stated."""
        return {
            "name": self.name,
            "subjects": list(self.subjects),
            "retention": "limits",
            "storage": "file",
            "num_replicas": self.replicas,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": self.max_age_s * _NANOSECONDS_PER_S,
            "max_msgs_per_subject": self.max_messages_per_subject,
            "max_msg_size": self.max_message_bytes,
            "discard": self.discard,
            "duplicate_window": DUPLICATE_WINDOW_MS * 1_000_000,
            "compression": "none",
            "allow_direct": True,
            "mirror_direct": False,
            "sealed": False,
            "deny_delete": True,
            "deny_purge": self.deny_purge,
            "allow_rollup_hdrs": self.allow_rollup,
            "allow_msg_ttl": False,
            "allow_atomic": self.allow_atomic,
            "consumer_limits": {},
        }


def bucket_stream(bucket: str) -> str:
    """The stream behind a key-value bucket."""
    return f"KV_{bucket}"


def object_stream(store: str) -> str:
    """The stream behind an object store."""
    return f"OBJ_{store}"


def _bucket(bucket: str, replicas: int, max_age_s: int = 0) -> StreamSettings:
    """One value per key. Roll-ups are how a client deletes a key; they need purging to be allowed."""
    return StreamSettings(
        name=bucket_stream(bucket),
        subjects=(f"$KV.{bucket}.>",),
        replicas=replicas,
        max_age_s=max_age_s,
        max_messages_per_subject=1,
        allow_rollup=True,
    )


def _objects(store: str, replicas: int) -> StreamSettings:
    return StreamSettings(
        name=object_stream(store),
        subjects=(f"$O.{store}.C.>", f"$O.{store}.M.>"),
        replicas=replicas,
        allow_rollup=True,
    )


def executor_bucket(tenant: str) -> str:
    """The key-value bucket in which a tenant's executors remember fire keys."""
    return f"executor-{check_tenant(tenant)}"


def stream_table(*, replicas: int = 1, tenants: Sequence[str] = ()) -> tuple[StreamSettings, ...]:
    """Every stream this release needs, with ``replicas`` (1 or 3) copies and a bucket per executor's tenant."""
    if replicas not in (1, 3):
        raise ValueError(f'"{replicas}" replicas; use 1 or 3')
    ledger = StreamSettings(
        name=LEDGER,
        subjects=("book.*.*", "attempts.*", "reports.*"),
        replicas=replicas,
        allow_atomic=True,
        deny_purge=True,
    )
    # Kept by age, so what is old must give way.
    feed = StreamSettings(name=FEED, subjects=("feed.*.*",), replicas=replicas, max_age_s=FEED_AGE_S, discard="old")
    return (
        ledger,
        feed,
        _bucket("leases", replicas),
        _bucket("digests", replicas),
        _objects("tzdb", replicas),
        _objects("snapshots", replicas),
        _objects("archive", replicas),
        *(_bucket(executor_bucket(tenant), replicas, EXECUTOR_MEMORY_S) for tenant in tenants),
    )


# Users and rights


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What one user may do. ``publish`` and ``subscribe`` of None mean everything inside its own account."""

    user: str
    account: str
    publish: tuple[str, ...] | None = None
    subscribe: tuple[str, ...] | None = None
    streams_inside: bool = False

    @property
    def ledger_subjects(self) -> tuple[str, ...]:
        """The subjects this user reaches in the ledger's account, by import."""
        if self.publish is None:
            return ()
        return tuple(subject for subject in self.publish if not subject.startswith(_ELSEWHERE))


@dataclass(frozen=True, slots=True)
class Service:
    """Subjects answered by a user in ``provider`` (an account) to requests from ``consumer``."""

    subject: str
    provider: str
    consumer: str
    streamed: bool = False
    expiry_s: int = 0


@dataclass(frozen=True, slots=True)
class AccessTable:
    """The users with their rights, and the services between their accounts."""

    users: tuple[Rights, ...]
    services: tuple[Service, ...] = field(default=())

    def rights_of(self, user: str) -> Rights:
        """The rights of a user. Raises KeyError for a name that is not in the table."""
        for rights in self.users:
            if rights.user == user:
                return rights
        raise KeyError(user)


USER_INFO_SUBJECT = "$SYS.REQ.USER.INFO"
"""Where a connection asks for its own rights."""
ANSWERS = "_R_.>"
"""Where a broker puts the answers to requests that come from another account: random names it made up itself.

A right to these, instead of one to answer what was received, because the broker forgets what was received when its
configuration is reloaded; it still drops what answers no open request (measured).
"""
_ELSEWHERE = ("control.", "work.", "outcomes.", ANSWERS, USER_INFO_SUBJECT)
"""Beginnings of the subjects that other accounts, not the ledger's, answer."""


def inbox_prefix(user: str) -> str:
    """The only inboxes a user may listen on; no other user can read them."""
    return f"_INBOX_{user}"


def executor_user(tenant: str) -> str:
    """The broker user of a tenant's executors."""
    return f"executor-{check_tenant(tenant)}"


def account_of(user: str) -> str:
    """The account a runner's or an executor's user has to itself."""
    return user.upper()


def outcome_subject(tenant: str) -> str:
    """Where a tenant's executors report outcomes; ``*`` for all tenants."""
    return f"outcomes.{tenant}"


def is_streamed(subject: str) -> bool:
    """Whether one request on this subject may get several answers (pulls and batched gets)."""
    return ".CONSUMER.MSG.NEXT." in subject or ".DIRECT.GET." in subject


def _read(stream: str) -> tuple[str, ...]:
    """Look at a stream and get single messages or batches from it."""
    api = "$JS.API"
    return (
        f"{api}.STREAM.INFO.{stream}",
        f"{api}.STREAM.MSG.GET.{stream}",
        f"{api}.DIRECT.GET.{stream}",
        f"{api}.DIRECT.GET.{stream}.>",
    )


def _pull(stream: str) -> tuple[str, ...]:
    """Read a stream with named pull consumers.

    A user may also create a push consumer, since the broker sees no difference; its messages then go to the
    ledger's account, where nobody but the administrator listens, and streams refuse what does not carry
    their own subject.
    """
    api = "$JS.API.CONSUMER"
    return (
        f"{api}.CREATE.{stream}.>",
        f"{api}.INFO.{stream}.*",
        f"{api}.DELETE.{stream}.*",
        f"{api}.MSG.NEXT.{stream}.*",
    )


_LEDGER_READER = _read(LEDGER) + _pull(LEDGER)
_LEASES = _read("KV_leases") + _pull("KV_leases")
_DIGESTS = _read("KV_digests") + _pull("KV_digests")
_TZDB = _read("OBJ_tzdb") + _pull("OBJ_tzdb")
_SNAPSHOTS = _read("OBJ_snapshots") + _pull("OBJ_snapshots")
_ARCHIVE = _read("OBJ_archive") + _pull("OBJ_archive")


def _runner(user: UserName, publish: tuple[str, ...], *, subscribe: tuple[str, ...] = ()) -> Rights:
    return Rights(
        user=user,
        account=account_of(user),
        publish=(*publish, USER_INFO_SUBJECT),
        subscribe=(*subscribe, f"{inbox_prefix(user)}.>"),
    )


def _executor(tenant: str) -> Rights:
    """Take a tenant's work, answer it, report its outcomes, and remember fire keys in the tenant's bucket."""
    user, bucket = executor_user(tenant), executor_bucket(tenant)
    return Rights(
        user=user,
        account=account_of(user),
        publish=(
            *_read(bucket_stream(bucket)),
            f"$KV.{bucket}.>",
            outcome_subject(tenant),
            ANSWERS,
            USER_INFO_SUBJECT,
        ),
        subscribe=(f"work.{tenant}.>", f"{inbox_prefix(user)}.>"),
    )


def _runners() -> tuple[Rights, ...]:
    """The rights of every runner: the table of the design, subject by subject."""
    return (
        # Commands are book pages too, so control's right to books is the scheduler's.
        _runner(
            UserName.CONTROL,
            (*_LEDGER_READER, *_LEASES, *_TZDB, *_SNAPSHOTS, "book.*.*", "reports.*", "$O.tzdb.>", ANSWERS),
            subscribe=("control.>", outcome_subject("*")),
        ),
        _runner(
            UserName.SCHEDULER,
            (
                *_LEDGER_READER,
                *_LEASES,
                *_TZDB,
                *_SNAPSHOTS,
                "book.*.*",
                "$KV.leases.scheduler.>",
                "$O.snapshots.>",
            ),
        ),
        _runner(
            UserName.DISPATCHER,
            (*_LEDGER_READER, *_LEASES, "attempts.*", "$KV.leases.dispatcher.>", "work.>"),
        ),
        _runner(
            UserName.PROJECTOR,
            (
                *_LEDGER_READER,
                *_LEASES,
                *_TZDB,
                *_DIGESTS,
                *_SNAPSHOTS,
                *_ARCHIVE,
                *_read(FEED),
                "feed.*.*",
                "$KV.digests.>",
                "$O.snapshots.>",
                "$O.archive.>",
            ),
        ),
        _runner(UserName.SHADOW, (*_LEDGER_READER, *_TZDB, *_DIGESTS, *_ARCHIVE, "$KV.digests.>")),
        _runner(UserName.REPLAY, (*_LEDGER_READER, *_TZDB, *_ARCHIVE)),
        _runner(UserName.OPERATOR, ("control.>",)),
    )


def access_table(tenants: Sequence[str] = ()) -> AccessTable:
    """Users, rights and services, with an executor's user for each of ``tenants``.

    Raises MalformedName for a tenant's name that is none.
    """
    executors = tuple(_executor(tenant) for tenant in tenants)
    services = [
        Service("control.>", account_of(UserName.CONTROL), account_of(UserName.OPERATOR), True, RESPONSE_EXPIRY_S)
    ]
    for tenant, rights in zip(tenants, executors, strict=True):
        dispatcher = account_of(UserName.DISPATCHER)
        services.append(Service(f"work.{tenant}.>", rights.account, dispatcher, False, RESPONSE_EXPIRY_S))
        # Only this tenant's executors can send there, so the subject tells control whose report it is.
        control = account_of(UserName.CONTROL)
        services.append(Service(outcome_subject(tenant), control, rights.account, False, REPORT_EXPIRY_S))
    return AccessTable(
        users=(
            Rights(user=UserName.ADMIN, account=LEDGER_ACCOUNT, streams_inside=True),
            Rights(user=UserName.SYSTEM, account=SYSTEM_ACCOUNT),
            Rights(user=UserName.STORE, account=STORE_ACCOUNT, streams_inside=True),
            *_runners(),
            *executors,
        ),
        services=tuple(services),
    )
