"""Every bound of the system, by name, with its unit and the reason for its value."""

from .instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Duration

# Identity
SLOT_COUNT = 1024
"""Slots a tenant's name hashes to. Part of every subject, so it never changes."""
PARTITION_COUNT_DEFAULT = 256
"""Contiguous slot ranges that are leased; 1 to 1024, changeable while running."""
REQUEST_ID_LENGTH_MAX = 128
"""Characters in a request id."""

# Pages
PAGE_ENTRIES_MAX = 10_000
"""Entries in one page."""
PAGE_BYTES_MAX = 900 * 1024
"""Bytes of a page's body: below the broker's 1 MiB message, with room for headers."""
ATTEMPTS_PAGE_BYTES_MAX = PAGE_BYTES_MAX // 2
"""Half a book page, so that one attempts page can always be observed by one book page."""
ATTEMPTS_PAGE_RECORDS_MAX = 4_000
"""Records in one attempts page: fewer than half of PAGE_ENTRIES_MAX, so a finish for each fits beside them."""
BATCH_PAGES_MAX = 1_000
"""Pages in one atomic batch: the broker's own limit."""
PLAIN_APPENDS_MAX = 10
"""Up to this many pages are appended one by one; the measured crossover to an atomic batch is just above it."""

# The effective rule
STAMP_EARLY_MAX = Duration(100 * MILLISECOND)
"""A page stamped by the broker more than this before its writer's earliest instant has no effect."""
STAMP_LATE_MAX = Duration(10 * SECOND)
"""A page stamped by the broker more than this after its writer's latest instant has no effect."""

# Clock
CLOCK_UNCERTAINTY_MAX = Duration(100 * MILLISECOND)
"""Above this epsilon a node gives up its leases."""
CLOCK_BOUND_DECLARED = Duration(10 * MILLISECOND)
"""The declared epsilon of a single machine whose kernel clock attests nothing."""

# Policies
HORIZON_DEFAULT = Duration(1 * HOUR)
HORIZON_MAX = Duration(24 * HOUR)
"""How late an instant may be and still fire, judged at decision."""
TOLERANCE_MIN = Duration(5 * SECOND)
TOLERANCE_MAX = Duration(60 * SECOND)
"""The on-time tolerance is the gap to the next instant, clamped to this range, unless declared."""
CAP_DEFAULT = 25
CAP_MAX = 1_000
"""Catch-up fires of one trigger under fire-all."""
OUTCOME_WINDOW_DEFAULT = Duration(15 * MINUTE)
OUTCOME_WINDOW_MAX = Duration(24 * HOUR)
"""After the last started record; an open fire without an outcome then ends unknown."""
ATTEMPT_TIMEOUT_DEFAULT = Duration(30 * SECOND)
ATTEMPT_TIMEOUT_MAX = Duration(15 * MINUTE)
"""How long one call may take."""
ATTEMPT_RESEND_DELAY = Duration(5 * SECOND)
"""A call whose dispatcher died is sent again no earlier than its timeout plus this."""
RETRY_BASE_DEFAULT = Duration(1 * MINUTE)
RETRY_BASE_MIN = Duration(1 * SECOND)
"""The wait before the second attempt."""
RETRY_FACTOR_DEFAULT = 200
RETRY_FACTOR_MIN = 100
RETRY_FACTOR_MAX = 1_000
"""By how much each wait is longer than the one before, in hundredths: 1, 2, 4, 8 minutes by default."""
RETRY_CAP_DEFAULT = Duration(1 * HOUR)
RETRY_CAP_MAX = Duration(24 * HOUR)
"""The longest wait that the factor leads to; also the longest Retry-After that is honoured."""
ATTEMPTS_DEFAULT = 5
ATTEMPTS_MAX = 50
"""Attempts of one fire, the first included."""
RETRY_SPREAD_PERCENT = 25
"""A retry waits up to this much longer than its nominal wait, spread by fire key and attempt."""
JITTER_MAX = Duration(24 * HOUR)
"""A jitter window; it also never exceeds the gap to the next instant."""
QUOTA_DEFAULT_PER_SECOND = 100
QUOTA_MAX_PER_SECOND = 100_000
"""On-time fires a tenant may make each second before they are marked over-quota."""
CATCH_UP_PERCENT_DEFAULT = 10
CATCH_UP_PERCENT_MIN = 1
CATCH_UP_PERCENT_MAX = 100
"""The share of its quota at which a tenant's catch-up fires are released, and its backfill fires."""
CATCH_UP_RATE_DEFAULT = 500
BACKFILL_RATE_DEFAULT = 100
"""Fires a second of all tenants together that the lane releases."""
LANE_RATE_MAX = 100_000
"""The highest accepted rate of a lane, and of one backfill."""
PACE_STEP = Duration(200 * MILLISECOND)
"""A paced lane is looked at about this often; between two looks its tokens gather."""
FIRES_OPEN_MAX = 2_000
"""Released fires of one trigger without an outcome, even where they may overlap: an on-time fire is skipped then,
cause overlap, and any other waits."""
BACKFILL_WAITING_MAX = 1_000
"""Fires of one backfill that are decided ahead of their release."""
BACKFILL_SPANS_MAX = 2_000
"""Stretches of already fired instants that one backfill can leave out."""
BACKFILL_FIRES_MAX = 1_000_000
"""The largest grant of fires to one backfill."""
AMOUNT_MAX = 10**15
"""The largest spend ceiling, and the largest cost that one outcome reports."""
NAME_LENGTH_MAX = 64
"""Characters of the name of who did something by hand, and of a backfill's label."""
REASON_LENGTH_MAX = 200
"""Characters of the reason given with a declaration."""
DRAIN_MAX = Duration(7 * DAY)
"""How long a lane may be declared to be behind."""
PAYLOAD_BYTES_MAX = 64 * 1024
TARGET_LENGTH_MAX = 2_048
"""Characters of a target."""
MESSAGE_LENGTH_MAX = 256
"""Characters of an executor's short message kept with a result."""
TRIGGERS_PER_TENANT_MAX = 100_000
"""Live triggers in one book: keeps its state and a fold of it within one process's memory."""
TRIGGER_NAMES_MAX = 400_000
"""Names in one book, those of deleted triggers included: their run numbers are kept so that no key is reused."""
MAX_FIRES_MAX = 1_000_000_000
"""Largest accepted maximum number of fires."""
SEGMENTS_MAX = 64
"""Amended schedules of one trigger that still owe instants; the next amendment waits for the scheduler."""
PAUSES_MAX = 64
"""Pauses of one trigger that still touch undecided instants; the next pause waits for the scheduler."""
STOPS_MAX = 64
"""Suspensions of one trigger or tenant, and quarantines of one trigger, that still touch undecided instants; beyond it
the two oldest count as one, with what lies between them."""
WAITING_MAX = 2_000
"""Decided fires of one trigger that wait for release; more are dropped by entry."""
CAUSE_LENGTH_MAX = 200
"""Characters of the cause that a quarantine keeps."""
REQUEST_MEMORY = Duration(24 * HOUR)
"""How long a request id is remembered, in the book's now."""
REQUESTS_REMEMBERED_MAX = 100_000
"""Request ids remembered per book."""
OBSERVE_WITHIN = Duration(2 * SECOND)
"""An outcome with nothing else due is carried into its book within about this long."""

# Recurrence
EXPRESSION_LENGTH_MAX = 256
"""Characters of a schedule expression."""
INTERVAL_MIN = Duration(1 * SECOND)
INTERVAL_MAX = Duration(3_660 * DAY)
"""Shortest and longest interval schedules."""
YEAR_MIN = 1970
YEAR_MAX = 2199
"""Years a search looks at: beyond the 8-year leap gap and the 40-year weekday cycle around 2100."""

MOVED_NAMED_MAX = 4_000
"""Triggers that the adoption of a time-zone database names one by one: they fit in a page at any length of name."""
ADOPTIONS_MAX = 1_000
"""Time-zone databases that one book can adopt: decades of releases."""
MARK_KEPT = Duration(2 * DAY)
"""How far beyond an earlier database's last decided instant that is remembered: no clock changes by more."""
EARLIER_MARKS_MAX = 8
"""Earlier databases remembered in one schedule: as many decided something of it within MARK_KEPT."""
EXCLUDED_DATES_MAX = 4_000
"""Excluded dates of one trigger: ten years of every day, or a century of holidays."""

# Leases
LEASE_EXPIRY = Duration(5 * SECOND)
LEASE_RENEWAL = Duration(1_500 * MILLISECOND)
"""A runner's heartbeat and when it lapses."""
