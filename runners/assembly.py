"""Putting a runner together: its connection, clock, zones, log and leases, from what the command line said."""

from dataclasses import dataclass
from pathlib import Path

from fireledger.domain.instants import Duration
from fireledger.domain.limits import PARTITION_COUNT_DEFAULT

from .broker.credentials import load_credentials
from .clock import OnStep, SystemClock, choose_clock
from .jetstream.buckets import Bucket
from .jetstream.connection import BrokerConnection, Login
from .jetstream.ledger import Ledger
from .jetstream.reader import Checkpoint, PullReader
from .leases import PartitionLeases
from .logs import get_log

CONNECT_RETRY_FIRST_S = 0.1
CONNECT_RETRY_MAX_S = 2.0
BEGINNING = Checkpoint(0, b"")
_log = get_log("runner")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """What a runner was asked for. ``local``: broker and runner share a machine, so a declared clock and loopback
    targets are allowed.
    """

    kind: str
    nats_url: str
    credentials: Path
    clock_bound: Duration | None = None
    on_clock_step: OnStep = "hold"
    partition_count: int = PARTITION_COUNT_DEFAULT
    local: bool = False

    def login(self) -> Login:
        """The runner's login. Raises OperationalError when the credentials file cannot be read."""
        credentials = load_credentials(self.credentials)
        return Login(self.nats_url, credentials.user, credentials.password)

    def clock(self) -> SystemClock:
        """The runner's clock. Raises ClockUnusable."""
        return choose_clock(declared=self.clock_bound, single_machine=self.local, on_step=self.on_clock_step)


@dataclass(frozen=True, slots=True)
class Runtime:
    """What every runner is made of."""

    options: RunnerOptions
    runner_id: str
    clock: SystemClock
    connection: BrokerConnection
    ledger: Ledger

    def reader(self) -> PullReader:
        """A reader of the whole LEDGER."""
        return PullReader(self.connection, after=BEGINNING)

    def leases(self, kind: "LeaseKind") -> PartitionLeases:
        """The runner's leases."""
        return PartitionLeases(
            Bucket(self.connection, "leases"),
            self.clock,
            kind=kind,
            runner_id=self.runner_id,
            partition_count=self.options.partition_count,
        )
