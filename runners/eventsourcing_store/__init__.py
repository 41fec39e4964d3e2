"""The JetStream persistence module for ``eventsourcing``; the only package that imports that library.

``PERSISTENCE_MODULE=fireledger.runners.eventsourcing_store`` selects it. The library looks for the one factory class
among the names here, so there must be no second one.
"""

from .factory import JetStreamFactory

__all__ = ["JetStreamFactory"]
