"""Each test of the contract runs twice: on the simulated broker and on a real one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.contract.ledger_port.ports import Ports, SimulatedPorts, real_ports

_REAL = pytest.param("real", marks=[pytest.mark.integration, pytest.mark.slow])


@pytest_asyncio.fixture(params=["simulated", _REAL])
async def ports(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ports]:
    """A broker with an empty log."""
    if request.param == "simulated":
        yield SimulatedPorts()
        return
    async with real_ports(tmp_path / "data") as real:
        yield real
