"""A book that was tampered with in the broker: every reader stops before it acts on it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from fireledger.domain.commands import Tick
from fireledger.domain.identifiers import slot_of
from fireledger.domain.page import decode_page, encode_page
from fireledger.projections.ledger_fold import LedgerFold
from fireledger.runners.errors import ExitStatus
from fireledger.runners.jetstream.connection import BrokerConnection
from fireledger.runners.jetstream.leader import Stored
from fireledger.runners.jetstream.provisioning import provision
from fireledger.runners.jetstream.reading import scan
from tests.integration.brokers import TENANTS, RunningBroker, bare_connection
from tests.integration.races.processes import running
from tests.integration.scheduler.harness import opened_desk, scheduling
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio]
