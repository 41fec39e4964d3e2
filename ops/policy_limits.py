"""The tables of defaults and bounds in the policy pages, from the named limits."""

from dataclasses import dataclass

import msgspec

from fireledger.domain import limits
from fireledger.domain.definition import Definition, TenantSettings
from fireledger.domain.instants import format_duration


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: its page, what it is, the option that sets it, and the names of its limits."""

    page: str
    what: str
    option: str
    default: str
    bounds: tuple[str, ...] = ()
    unit: str = ""


_PERCENT, _TIMES = "%", "x"

ROWS = (
    Row("missed-fires", "horizon", "`--horizon`", "HORIZON_DEFAULT", ("HORIZON_MAX",)),
    Row("missed-fires", "on-time tolerance", "`--tolerance`", "", ("TOLERANCE_MIN", "TOLERANCE_MAX")),
    Row("missed-fires", "missed-fire policy", "`--missed`", "=fire-once-now"),
    Row("missed-fires", "cap of fire-all", "`--cap`", "CAP_DEFAULT", ("CAP_MAX",)),
    Row("overlap", "overlap", "`--overlap`", "=skip"),
    Row("overlap", "outcome window", "`--outcome-window`", "OUTCOME_WINDOW_DEFAULT", ("OUTCOME_WINDOW_MAX",)),
    Row("overlap", "timeout of one call", "`--timeout`", "ATTEMPT_TIMEOUT_DEFAULT", ("ATTEMPT_TIMEOUT_MAX",)),
    Row("overlap", "open fires of a trigger", "", "FIRES_OPEN_MAX"),
    Row("overlap", "waiting fires of a trigger", "", "WAITING_MAX"),
    Row("lanes", "tenant's quota, fires a second", "`--quota`", "QUOTA_DEFAULT_PER_SECOND", ("QUOTA_MAX_PER_SECOND",)),
    Row("lanes", "share of the quota for catch-up, and as much for backfill", "`--catch-up-share`",
        "CATCH_UP_PERCENT_DEFAULT", unit=_PERCENT),
    Row("lanes", "catch-up fires a second, all tenants", "`up --catch-up-rate`", "CATCH_UP_RATE_DEFAULT",
        ("LANE_RATE_MAX",)),
    Row("lanes", "backfill fires a second, all tenants", "`up --backfill-rate`", "BACKFILL_RATE_DEFAULT",
        ("LANE_RATE_MAX",)),
    Row("lanes", "a paced lane is looked at every", "", "PACE_STEP"),
    Row("lanes", "longest declared drain", "`--until`", "DRAIN_MAX"),
    Row("retries", "attempts, the first included", "`--max-attempts`", "ATTEMPTS_DEFAULT", ("ATTEMPTS_MAX",)),
    Row("retries", "wait before the second attempt", "`--retry-base`", "RETRY_BASE_DEFAULT", ("RETRY_BASE_MIN",)),
    Row("retries", "factor of each further wait", "`--retry-factor`", "RETRY_FACTOR_DEFAULT",
        ("RETRY_FACTOR_MIN", "RETRY_FACTOR_MAX"), unit=_TIMES),
    Row("retries", "longest wait, Retry-After included", "`--retry-cap`", "RETRY_CAP_DEFAULT", ("RETRY_CAP_MAX",)),
    Row("retries", "spread on top of a wait", "", "RETRY_SPREAD_PERCENT", unit=_PERCENT),
    Row("retries", "a call whose dispatcher died is resent after its timeout and", "", "ATTEMPT_RESEND_DELAY"),
    Row("ceilings", "amount of a ceiling, and cost of one outcome", "`--amount`", "=none", ("AMOUNT_MAX",)),
    Row("ceilings", "suspensions that touch undecided instants, before the oldest are joined", "", "STOPS_MAX"),
    Row("backfill", "grant, fires in one backfill", "`backfill grant --fires`", "=none", ("BACKFILL_FIRES_MAX",)),
    Row("backfill", "rate of one backfill, fires a second", "`--rate`", "=the tenant's catch-up share",
        ("LANE_RATE_MAX",)),
    Row("backfill", "fires decided ahead of their release", "", "BACKFILL_WAITING_MAX"),
    Row("backfill", "stretches that `--only-missing` can leave out", "", "BACKFILL_SPANS_MAX"),
    Row("jitter", "window of a tenant", "`--default-jitter`", "=0s", ("JITTER_MAX",)),
    Row("jitter", "window of a trigger", "`--jitter`", "=the tenant's", ("JITTER_MAX",)),
    Row("edits", "amended schedules that still owe instants", "", "SEGMENTS_MAX"),
    Row("pauses", "pauses that touch undecided instants", "", "PAUSES_MAX"),
)  # fmt: skip
"""Every setting of the policies, in the order of the pages."""

ALL = "all"


class UnknownBlock(ValueError):
    """A page has a marker that names nothing."""


def limits_table(page: str) -> str:
    """The settings of one page, or of ``all``, as a table. Raises UnknownBlock when the page has none."""
    rows = [row for row in ROWS if page in (row.page, ALL)]
    if not rows:
        raise UnknownBlock(f'no setting belongs to "{page}"')
    lines = ["| what | option | default | bounds | named in `domain/limits.py` |", "|---|---|---|---|---|"]
    for row in rows:
        what = f"[{row.what}]({row.page}.md)" if page == ALL else row.what
        named = [name for name in (row.default, *row.bounds) if name and not name.startswith("=")]
        cells = (what, row.option or "fixed", _default(row), _bounds(row), ", ".join(f"`{name}`" for name in named))
        lines.append("| " + " | ".join(cell or "-" for cell in cells) + " |")
    return "\n".join(lines)


def stated_defaults() -> dict[str, str]:
    """The defaults of options that the table gives in its own words and that are fields elsewhere."""
    return {row.option: row.default[1:] for row in ROWS if row.option in real_defaults()}


def real_defaults() -> dict[str, str]:
    """What a definition and a tenant's settings have in them when nothing is given, by option."""
    fields = {field.name: field.default for field in msgspec.structs.fields(Definition)}
    jitter = "the tenant's" if fields["jitter"] is None else format_duration(int(fields["jitter"]))
    return {
        "`--missed`": str(fields["missed"]),
        "`--overlap`": str(fields["overlap"]),
        "`--jitter`": jitter,
        "`--default-jitter`": format_duration(TenantSettings().default_jitter),
    }


def _default(row: Row) -> str:
    if not row.default:
        return "the gap to the next instant, within the bounds"
    return row.default[1:] if row.default.startswith("=") else _value(row.default, row.unit)


def _bounds(row: Row) -> str:
    values = [_value(name, row.unit) for name in row.bounds]
    if len(values) == 1:
        return f"at least {values[0]}" if row.bounds[0].endswith("_MIN") else f"at most {values[0]}"
    return " to ".join(values)


def _value(name: str, unit: str) -> str:
    value = int(getattr(limits, name))
    if unit == _TIMES:
        return f"{value / 100:g}"
    if unit == _PERCENT:
        return f"{value} %"
    return format_duration(value) if _is_duration(name) else f"{value:,}"


def _is_duration(name: str) -> bool:
    words = {"HORIZON", "TOLERANCE", "WINDOW", "TIMEOUT", "STEP", "DRAIN", "DELAY", "JITTER"}
    return bool(words & set(name.split("_"))) or name.startswith(("RETRY_BASE", "RETRY_CAP"))
