"""What the library's applications are built from when this module is their persistence module."""

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    InterfaceError,
    NotSupportedError,
    ProcessRecorder,
    ProgrammingError,
    TrackingRecorder,
)
from eventsourcing.utils import Environment, EnvType

from .link import Lease, lease
from .recorders import JetStreamAggregateRecorder, JetStreamApplicationRecorder
from .settings import read_settings


class JetStreamFactory(InfrastructureFactory[TrackingRecorder]):
    """Recorders in JetStream streams of the application's own, configured by environment variables.

    ``NATS_URL`` and ``NATS_CREDS`` (the path of a credentials file) say where; ``JETSTREAM_STREAM`` and
    ``JETSTREAM_PREFIX`` change the streams' names, ``JETSTREAM_REPLICAS`` (1) and ``JETSTREAM_CREATE_STREAMS`` (yes)
    how they are made; ``JETSTREAM_MAX_BATCH`` (1000) bounds one insert, ``JETSTREAM_TIMEOUT`` (30 seconds) the wait for
    a definite answer; ``ORIGINATOR_ID_TYPE`` is ``text`` or ``uuid``. Each may carry the application's name in front.
    """

    def __init__(self, env: Environment | EnvType | None) -> None:
        """Read the settings; nothing is connected yet. Raises InfrastructureFactoryError naming the variable."""
        super().__init__(env)
        self._settings = read_settings(self.env)
        self._lease: Lease | None = None
        self._closed = False

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """Return a recorder of ``events`` or ``snapshots``; the latter may have gaps in their versions.

        A snapshot older than the newest is not kept: snapshots are a cache. Raises InfrastructureFactoryError when
        the stream differs, and what the recorders raise.
        """
        if purpose not in {"events", "snapshots"}:
            raise ProgrammingError(f'purpose "{purpose}" is not known; use events or snapshots')
        return JetStreamAggregateRecorder(self._shared(), self._settings.plan(purpose, gapless=purpose == "events"))

    def application_recorder(self) -> ApplicationRecorder:
        """Return a recorder of events that gives them notification ids. Raises as ``aggregate_recorder``."""
        return JetStreamApplicationRecorder(self._shared(), self._settings.plan("events", gapless=True))

    def tracking_recorder(self, tracking_recorder_class: type[TrackingRecorder] | None = None) -> TrackingRecorder:
        """Raise NotSupportedError: positions come with the projections."""
        del tracking_recorder_class
        raise NotSupportedError("there is no tracking recorder yet; it comes with the projections")

    def process_recorder(self) -> ProcessRecorder:
        """Raise NotSupportedError: positions come with the projections."""
        raise NotSupportedError("there is no process recorder yet; it comes with the projections")

    def close(self) -> None:
        """Give the connection back; its recorders are closed with it. Safe to call again and from any thread."""
        self._closed = True
        if self._lease is not None:
            self._lease.close()

    def _shared(self) -> Lease:
        if self._closed:
            raise InterfaceError("the store is closed")
        if self._lease is None:
            self._lease = lease(self._settings.login)
        return self._lease
