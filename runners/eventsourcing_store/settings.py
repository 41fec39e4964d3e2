"""The module's settings, read from the library's environment; each name may carry the application's name in front."""

from dataclasses import dataclass

from eventsourcing.persistence import InfrastructureFactoryError
from eventsourcing.utils import Environment, strtobool

from fireledger.domain.limits import BATCH_PAGES_MAX

from ..broker.credentials import load_credentials
from ..errors import FolderUnusable
from ..jetstream.connection import Login
from ..jetstream.ledger import APPEND_DEADLINE_S
from ..jetstream.topology import StreamSettings
from .wire import IdType, encode_token

TIMEOUT_MIN_S = 0.1
TIMEOUT_MAX_S = 3_600.0
"""How long one call may be told to wait for a definite answer."""
REPLICAS_MAX = 5
"""The most copies of a stream that a broker keeps."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A stream of stored events and how it is used.

    ``gapless``: an originator's versions begin at 0 or 1 and have no holes. Otherwise (snapshots) they only grow.
    """

    settings: StreamSettings
    subject_prefix: str
    gapless: bool
    id_type: IdType
    create: bool
    batch_max: int
    timeout_s: float

    def subject(self, originator_id: str) -> str:
        """The exact subject of one originator's events. Raises DataError."""
        return self.subject_prefix + encode_token(originator_id)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Everything the environment says."""

    login: Login
    name: str
    prefix: str
    replicas: int
    create: bool
    batch_max: int
    timeout_s: float
    id_type: IdType

    def plan(self, kind: str, *, gapless: bool) -> StreamPlan:
        """Return the plan of the application's stream of ``events`` or ``snapshots``."""
        # As other stores name their tables, the case of an application's name does not tell it from another's.
        tokens = [*([encode_token(self.prefix)] if self.prefix else []), kind, encode_token(self.name)]
        subject_prefix = ".".join(tokens).lower() + "."
        settings = StreamSettings(
            name="-".join(tokens).upper(),
            subjects=(subject_prefix + "*",),
            replicas=self.replicas,
            allow_atomic=True,
            deny_purge=gapless,
        )
        return StreamPlan(
            settings=settings,
            subject_prefix=subject_prefix,
            gapless=gapless,
            id_type=self.id_type,
            create=self.create,
            batch_max=self.batch_max,
            timeout_s=self.timeout_s,
        )


def read_settings(env: Environment) -> StoreSettings:
    """Read and check the settings. Raises InfrastructureFactoryError naming the variable."""
    name = env.get("JETSTREAM_STREAM", "") or env.name
    if not name:
        raise InfrastructureFactoryError('"JETSTREAM_STREAM" is not set and the environment has no name')
    return StoreSettings(
        login=_login(env),
        name=name,
        prefix=env.get("JETSTREAM_PREFIX", ""),
        replicas=_integer(env, "JETSTREAM_REPLICAS", 1, range(1, REPLICAS_MAX + 1)),
        create=_flag(env, "JETSTREAM_CREATE_STREAMS"),
        batch_max=_integer(env, "JETSTREAM_MAX_BATCH", BATCH_PAGES_MAX, range(1, BATCH_PAGES_MAX + 1)),
        timeout_s=_seconds(env, "JETSTREAM_TIMEOUT", APPEND_DEADLINE_S),
        id_type=_id_type(env),
    )


def _login(env: Environment) -> Login:
    url, path = env.get("NATS_URL", ""), env.get("NATS_CREDS", "")
    if not url:
        raise InfrastructureFactoryError('"NATS_URL" is not set; give the address of a broker: nats://127.0.0.1:4222')
    if not path:
        raise InfrastructureFactoryError('"NATS_CREDS" is not set; give the path of a credentials file')
    try:
        credentials = load_credentials(path)
    except FolderUnusable as error:
        raise InfrastructureFactoryError(f'"NATS_CREDS": {error.message}') from error
    return Login(url, credentials.user, credentials.password)


def _integer(env: Environment, key: str, default: int, allowed: range) -> int:
    text = env.get(key, "") or str(default)
    if not (text.isascii() and text.isdigit() and int(text) in allowed):
        raise InfrastructureFactoryError(
            f'"{key}" is "{text[:40]}"; give a whole number from {allowed.start} to {allowed[-1]}'
        )
    return int(text)


def _seconds(env: Environment, key: str, default: float) -> float:
    text = env.get(key, "") or str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not TIMEOUT_MIN_S <= seconds <= TIMEOUT_MAX_S:
        raise InfrastructureFactoryError(
            f'"{key}" is "{text[:40]}"; give seconds from {TIMEOUT_MIN_S:g} to {TIMEOUT_MAX_S:g}'
        )
    return seconds


def _flag(env: Environment, key: str) -> bool:
    text = env.get(key, "yes")
    try:
        return strtobool(text)
    except ValueError:
        raise InfrastructureFactoryError(f'"{key}" is "{text[:40]}"; give yes or no') from None


def _id_type(env: Environment) -> IdType:
    text = env.get("ORIGINATOR_ID_TYPE", "") or IdType.TEXT
    try:
        return IdType(text.lower())
    except ValueError:
        raise InfrastructureFactoryError(f'"ORIGINATOR_ID_TYPE" is "{text[:40]}"; give text or uuid') from None
