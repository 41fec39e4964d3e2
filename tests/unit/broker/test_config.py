"""The broker's configuration follows from the table."""

from pathlib import Path

from fireledger.runners.broker.config import BrokerConfig, render_config
from fireledger.runners.broker.credentials import Credentials
from fireledger.runners.broker.folder import DataFolder
from fireledger.runners.jetstream.topology import access_table
from fireledger.runners.json_edge import Json, loads


def _rendered(*tenants: str) -> dict[str, Json]:
    access = access_table(tenants)
    credentials = {rights.user: Credentials(rights.user, f"password of {rights.user}") for rights in access.users}
    text = render_config(BrokerConfig(DataFolder(Path("/data")), 4222, "here", access), credentials)
    content = loads(text)
    assert isinstance(content, dict)
    return content


def _account(config: dict[str, Json], name: str) -> dict[str, Json]:
    accounts = config["accounts"]
    assert isinstance(accounts, dict)
    account = accounts[name]
    assert isinstance(account, dict)
    return account


def test_a_broker_listens_on_loopback_and_syncs_every_message() -> None:
    """Loopback only, no monitoring port, a bounded log, a 1 MiB message, a sync before every acknowledgement."""
    config = _rendered()
    assert config["host"] == "127.0.0.1"
    assert config["port"] == 4222
    assert config["max_payload"] == 1024 * 1024
    assert config["jetstream"] == {"store_dir": "/data/store", "sync_interval": "always"}
    assert not {key for key in config if "http" in key or "monitor" in key}
    assert isinstance(config["log_size_limit"], int)


def test_every_user_has_an_account_to_itself_and_permissions_of_its_own() -> None:
    """No account has two users, and only the three that are the operator's are without a list."""
    config = _rendered("acme")
    accounts = config["accounts"]
    assert isinstance(accounts, dict)
    unlimited: set[str] = set()
    for name in accounts:
        users = _account(config, name).get("users", [])
        assert isinstance(users, list)
        assert len(users) == (0 if name == "VOID" else 1)
        unlimited |= {str(user["user"]) for user in users if isinstance(user, dict) and "permissions" not in user}
    assert unlimited == {"admin", "system", "store"}


def test_the_ledger_is_exported_to_those_with_the_right_only() -> None:
    """Each export names its importers; books go to control and scheduler, attempts to the dispatcher."""
    exports = _account(_rendered("acme"), "FIRELEDGER")["exports"]
    assert isinstance(exports, list)
    to = {str(export["service"]): export["accounts"] for export in exports if isinstance(export, dict)}
    assert len(to) == len(exports)
    assert to["book.*.*"] == ["CONTROL", "SCHEDULER"]
    assert to["attempts.*"] == ["DISPATCHER"]
    assert to["reports.*"] == ["CONTROL"]
    assert to["$KV.executor-acme.>"] == ["EXECUTOR-ACME"]
    assert not [subject for subject in to if ".STREAM.CREATE" in subject or ".DELETE.LEDGER" in subject[:25]]


def test_work_goes_from_the_dispatcher_to_the_tenants_executor() -> None:
    """The executor's account offers its tenant's work to the dispatcher's, long enough for the longest attempt."""
    config = _rendered("acme", "globex")
    assert _account(config, "EXECUTOR-ACME")["exports"] == [
        {"service": "work.acme.>", "accounts": ["DISPATCHER"], "response_threshold": "960s"}
    ]
    imports = _account(config, "DISPATCHER")["imports"]
    assert isinstance(imports, list)
    for tenant in ("acme", "globex"):
        subject = {"account": f"EXECUTOR-{tenant.upper()}", "subject": f"work.{tenant}.>"}
        assert {"service": subject} in imports


def test_reports_go_from_the_tenants_executor_to_control() -> None:
    """Control's account offers each tenant's subject to that tenant's executors alone."""
    config = _rendered("acme", "globex")
    exports = _account(config, "CONTROL")["exports"]
    assert isinstance(exports, list)
    for tenant in ("acme", "globex"):
        subject, account = f"outcomes.{tenant}", f"EXECUTOR-{tenant.upper()}"
        assert {"service": subject, "accounts": [account], "response_threshold": "60s"} in exports
        imports = _account(config, account)["imports"]
        assert isinstance(imports, list)
        reports = [each for each in imports if isinstance(each, dict) and "outcomes" in str(each["service"])]
        assert reports == [{"service": {"account": "CONTROL", "subject": subject}}]
