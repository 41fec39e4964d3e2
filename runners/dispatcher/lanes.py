"""The order in which a dispatcher serves released attempts, and the share of its places that each kind may take."""

from fireledger.domain.entries import Lane

LANE_NAMES = ("on-time", "over-quota", "catch-up", "backfill")
"""By rank: a freed place goes to the first of these that waits. It is the order of shedding, the other way round."""
LANE_SHARES = (1, 2, 4, 8)
"""By rank: the part of all places, of a tenant's and of a target's that its calls may take at once: all, a half, a
quarter, an eighth. However slow a backfill's calls are, seven of eight places are free of them."""
ON_TIME = 0
OVER_QUOTA = 1
_RANKS: dict[Lane, int] = {"on-time": ON_TIME, "catch-up": 2, "backfill": 3}


def rank_of(lane: Lane, *, over_quota: bool) -> int:
    """The rank of an attempt: on-time fires above their tenant's quota come behind those within it."""
    return OVER_QUOTA if lane == "on-time" and over_quota else _RANKS[lane]


def lane_limit(places: int, rank: int) -> int:
    """How many of ``places`` the calls of a rank may take; at least one."""
    return max(1, places // LANE_SHARES[rank])
