"""The embedded broker's configuration, rendered from the table of rights.

Passwords stand in it in clear. Hashing them would protect nothing: the same passwords lie beside it in files of
the same mode, for the runners to use, and each connection would cost the broker about 100 ms of hashing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..jetstream.topology import (
    LEDGER_ACCOUNT,
    SYSTEM_ACCOUNT,
    VOID_ACCOUNT,
    AccessTable,
    Rights,
    Service,
    is_streamed,
)
from ..json_edge import Json, dumps_text
from .credentials import Credentials
from .folder import DataFolder

HOST = "127.0.0.1"
"""The only address an embedded broker listens on."""
MESSAGE_BYTES_MAX = 1024 * 1024
"""The broker's largest message: a page of 900 KiB with its headers fits."""
LOG_BYTES_MAX = 4 * 1024 * 1024
LOG_FILES_MAX = 3
"""The broker's log: this many files of this size."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What the configuration is made from."""

    folder: DataFolder
    port: int
    server_name: str
    access: AccessTable


def render_config(config: BrokerConfig, credentials: Mapping[str, Credentials]) -> str:
    """The configuration file's text. JSON, which the broker reads as it reads its own format.

    There is no monitoring port: what it would tell, the ``system`` user can ask for.
    """
    content: dict[str, Json] = {
        "server_name": config.server_name,
        "host": HOST,
        "port": config.port,
        "max_payload": MESSAGE_BYTES_MAX,
        "log_file": str(config.folder.log_path),
        "log_size_limit": LOG_BYTES_MAX,
        "logfile_max_num": LOG_FILES_MAX,
        "system_account": SYSTEM_ACCOUNT,
        # Every acknowledged message is on disk: an ack without this is only in the page cache.
        "jetstream": {"store_dir": str(config.folder.store_path), "sync_interval": "always"},
        "accounts": render_accounts(config.access, credentials),
    }
    return dumps_text(content) + "\n"


def render_accounts(access: AccessTable, credentials: Mapping[str, Credentials]) -> dict[str, Json]:
    """The accounts: an export and an import for each subject a user reaches outside its own account."""
    accounts: dict[str, Json] = {VOID_ACCOUNT: {"exports": [{"service": "void.>"}]}}
    for rights in access.users:
        account: dict[str, Json] = {"users": [_user(rights, credentials[rights.user])]}
        if rights.streams_inside:
            account["jetstream"] = "enabled"
        else:
            account["imports"] = _imports(rights, access)
        account["exports"] = _ledger_exports(access) if rights.account == LEDGER_ACCOUNT else _exports(rights, access)
        accounts[rights.account] = account
    return accounts


def _user(rights: Rights, credentials: Credentials) -> dict[str, Json]:
    user: dict[str, Json] = {"user": credentials.user, "password": credentials.password}
    if rights.publish is None or rights.subscribe is None:
        return user
    permissions: dict[str, Json] = {
        "publish": {"allow": list(rights.publish)},
        "subscribe": {"allow": list(rights.subscribe)},
    }
    return {**user, "permissions": permissions}


def _imports(rights: Rights, access: AccessTable) -> list[Json]:
    if rights.account == SYSTEM_ACCOUNT:
        return []
    imports: list[Json] = [_import(LEDGER_ACCOUNT, subject) for subject in rights.ledger_subjects]
    imports += [_import(s.provider, s.subject) for s in access.services if s.consumer == rights.account]
    imports.append({"service": {"account": VOID_ACCOUNT, "subject": "void.>"}, "to": "$JS.API.>"})
    return imports


def _import(account: str, subject: str) -> Json:
    return {"service": {"account": account, "subject": subject}}


def _exports(rights: Rights, access: AccessTable) -> list[Json]:
    return [_export(service) for service in access.services if service.provider == rights.account]


def _export(service: Service) -> Json:
    export: dict[str, Json] = {"service": service.subject, "accounts": [service.consumer]}
    if service.streamed:
        return {**export, "response_type": "stream"}
    return {**export, "response_threshold": f"{service.expiry_s}s"}


def _ledger_exports(access: AccessTable) -> list[Json]:
    reached: dict[str, list[Json]] = {}
    for rights in access.users:
        for subject in rights.ledger_subjects:
            reached.setdefault(subject, []).append(rights.account)
    exports: list[Json] = []
    for subject, accounts in reached.items():
        export: dict[str, Json] = {"service": subject, "accounts": accounts}
        exports.append({**export, "response_type": "stream"} if is_streamed(subject) else export)
    return exports
