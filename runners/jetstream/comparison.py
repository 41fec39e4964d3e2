"""Compares what a broker reports with the table, field by field. Pure: it asks nobody."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..errors import SettingsDiffer
from ..json_edge import Json, dumps_text
from .topology import LEDGER_ACCOUNT, SYSTEM_ACCOUNT, VOID_ACCOUNT, AccessTable, Rights, StreamSettings, is_streamed

_REPORT_ONLY = frozenset({"metadata", "description"})
"""What a stream may carry besides its settings; it changes nothing."""
_DIFFERENCES_SHOWN_MAX = 50
"""Lines of one diff; a broker set up for something else altogether would fill the screen."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not as the table says. None stands for absent."""

    place: str
    setting: str
    expected: Json
    actual: Json

    def __str__(self) -> str:
        return f"{self.place}: {self.setting}: expected {_shown(self.expected)}, is {_shown(self.actual)}"


def refuse(differences: Iterable[Difference], *, hint: str) -> None:
    """Raise SettingsDiffer with a line per difference; return when there is none."""
    lines = [str(difference) for difference in differences]
    if not lines:
        return
    more = len(lines) - _DIFFERENCES_SHOWN_MAX
    shown = lines[:_DIFFERENCES_SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
    raise SettingsDiffer("the broker is not set up as this release needs:\n" + "\n".join(shown), hint=hint)


def stream_differences(expected: StreamSettings, reported: Json) -> list[Difference]:
    """Every setting of a stream that differs, those that the table leaves at the broker's default included.

    A stream that does not exist is one difference.
    """
    place = f'stream "{expected.name}"'
    if not isinstance(reported, dict):
        return [Difference(place, "exists", True, False)]
    wanted = expected.as_request()
    names = list(wanted) + sorted(set(reported) - set(wanted) - _REPORT_ONLY)
    pairs = [(name, wanted.get(name), reported.get(name)) for name in names]
    return [Difference(place, name, want, have) for name, want, have in pairs if not _same(want, have)]


def rights_differences(expected: Rights, reported: Json) -> list[Difference]:
    """Every right of a user that differs from what the broker reports for a connection of that user."""
    place = f'user "{expected.user}"'
    user = _table(reported)
    permissions = _table(user.get("permissions"))
    differences = [
        *_subject_differences(place, "publish", expected.publish, permissions.get("publish")),
        *_subject_differences(place, "subscribe", expected.subscribe, permissions.get("subscribe")),
    ]
    if user.get("account") != expected.account:
        differences.append(Difference(place, "account", expected.account, user.get("account")))
    if permissions.get("responses") is not None:
        differences.append(Difference(place, "responses", None, permissions.get("responses")))
    return differences


def account_differences(access: AccessTable, account: str, reported: Json) -> list[Difference]:
    """Every import and export of an account that differs, besides those the broker makes itself."""
    place = f'account "{account}"'
    detail = _table(reported)
    if not detail:
        return [Difference(place, "exists", True, False)]
    inside = any(rights.account == account and rights.streams_inside for rights in access.users)
    differences: list[Difference] = []
    if detail.get("jetstream_enabled") is not inside:
        differences.append(Difference(place, "jetstream_enabled", inside, detail.get("jetstream_enabled")))
    differences += _set_differences(place, "import", _wanted_imports(access, account), _reported_imports(detail))
    if account != SYSTEM_ACCOUNT:  # the broker exports its own services there
        differences += _set_differences(place, "export", _wanted_exports(access, account), _reported_exports(detail))
    return differences


def broker_differences(reported: Json) -> list[Difference]:
    """Every setting of the broker as a whole that differs."""
    config = _table(_table(_table(reported).get("jetstream")).get("config"))
    always = config.get("sync_always", False)
    return [] if always is True else [Difference("broker", "jetstream.sync_interval", "always", "not always")]


def _wanted_imports(access: AccessTable, account: str) -> set[str]:
    wanted: set[str] = set()
    for rights in access.users:
        if rights.account == account and not rights.streams_inside and account != SYSTEM_ACCOUNT:
            wanted |= {f"{subject} from {LEDGER_ACCOUNT}" for subject in rights.ledger_subjects}
            wanted |= {f"{s.subject} from {s.provider}" for s in access.services if s.consumer == account}
            wanted.add(f"void.> from {VOID_ACCOUNT} as $JS.API.>")
    return wanted


def _reported_imports(detail: Mapping[str, Json]) -> set[str]:
    found: set[str] = set()
    for item in _items(detail.get("imports")):
        subject, local, source = (str(item.get(key)) for key in ("subject", "local_subject", "account"))
        if source != SYSTEM_ACCOUNT:
            found.add(f"{subject} from {source}" + ("" if local == subject else f" as {local}"))
    return found


def _wanted_exports(access: AccessTable, account: str) -> set[str]:
    if account == LEDGER_ACCOUNT:
        reached: dict[str, list[str]] = {}
        for rights in access.users:
            for subject in rights.ledger_subjects:
                reached.setdefault(subject, []).append(rights.account)
        return {_export(subject, is_streamed(subject), names) for subject, names in reached.items()}
    if account == VOID_ACCOUNT:
        return {_export("void.>", False, [])}
    return {_export(s.subject, s.streamed, [s.consumer]) for s in access.services if s.provider == account}


def _reported_exports(detail: Mapping[str, Json]) -> set[str]:
    found: set[str] = set()
    for item in _items(detail.get("exports")):
        approved = item.get("approved_accounts")
        names = [str(name) for name in approved] if isinstance(approved, list) else []
        found.add(_export(str(item.get("subject")), item.get("response_type") == "Streamed", names))
    return found


def _export(subject: str, streamed: bool, accounts: list[str]) -> str:
    return f"{subject} to {','.join(sorted(accounts))}" + (" streamed" if streamed else "")


def _set_differences(place: str, setting: str, wanted: set[str], found: set[str]) -> list[Difference]:
    return [Difference(place, setting, item, None) for item in sorted(wanted - found)] + [
        Difference(place, setting, None, item) for item in sorted(found - wanted)
    ]


def _subject_differences(
    place: str, direction: str, expected: tuple[str, ...] | None, reported: Json
) -> list[Difference]:
    if expected is None:
        return [] if reported is None else [Difference(place, direction, None, reported)]
    rules = _table(reported)
    allowed = rules.get("allow")
    names = {str(name) for name in allowed} if isinstance(allowed, list) else set[str]()
    differences = _set_differences(place, f"{direction}.allow", set(expected), names)
    if rules.get("deny"):
        differences.append(Difference(place, f"{direction}.deny", None, rules.get("deny")))
    return differences


def _same(expected: Json, actual: Json) -> bool:
    """Equal, where absent, false, zero and empty are one: the broker leaves out what is not set."""
    return expected == actual or (not expected and not actual)


def _table(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _items(value: Json) -> list[Mapping[str, Json]]:
    return [_table(item) for item in value] if isinstance(value, list) else []


def _shown(value: Json) -> str:
    return "nothing" if value is None else dumps_text(value)
