"""Where the fire rows are kept: so many in total, each tenant its fair share, the newest found without a search."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import nlargest

from fireledger.domain.instants import SECOND

from .fire_row import FireQuery, FireRow, Identity
from .ordered_keys import OrderedKeys


class _OfTrigger:
    """The order of one trigger's rows, and those of them that are ranges."""

    __slots__ = ("order", "ranges")

    def __init__(self) -> None:
        self.order = OrderedKeys()
        self.ranges: dict[Identity, FireRow] = {}


class _OfTenant:
    """One tenant's rows, in the order of their last change, the oldest first; and by scheduled instant."""

    __slots__ = ("complete_since", "forgotten_through", "order", "rows", "triggers")

    def __init__(self) -> None:
        # A plain dict would look over all places that were emptied before to find its oldest.
        self.rows: OrderedDict[Identity, FireRow] = OrderedDict()
        self.order = OrderedKeys()
        self.triggers: dict[str, _OfTrigger] = {}
        self.forgotten_through = 0
        self.complete_since: int | None = None

    def put(self, row: FireRow) -> bool:
        """Store a row as the one that changed last; whether it is a new one."""
        name = row.identity
        known = self.rows.get(name)
        self.rows[name] = row
        self.rows.move_to_end(name)
        of_trigger = self.triggers.setdefault(row.trigger, _OfTrigger())
        if row.count > 1:
            of_trigger.ranges[name] = row
        elif known is not None and known.count > 1:
            del of_trigger.ranges[name]
        if known is None:
            self.order.add(name)
            of_trigger.order.add(name)
        return known is None

    def forget_oldest(self) -> None:
        """Let the row go that has not changed for longest."""
        name, row = self.rows.popitem(last=False)
        self.order.remove(name)
        of_trigger = self.triggers[row.trigger]
        of_trigger.order.remove(name)
        of_trigger.ranges.pop(name, None)
        if not of_trigger.order:
            del self.triggers[row.trigger]
        self.forgotten_through = row.changed
        self.complete_since = max(self.complete_since or 0, (row.last // SECOND + 1) * SECOND)

    def newest(self, query: FireQuery) -> Iterator[FireRow]:
        """The rows that match, newest first."""
        if query.trigger is None:
            order, triggers = self.order, list(self.triggers.values())
        elif (of_trigger := self.triggers.get(query.trigger)) is not None:
            order, triggers = of_trigger.order, [of_trigger]
        else:
            return
        for name in order.descending(query.bound):
            if query.since is not None and name[0] < query.since:
                yield from self._reaching(triggers, query, query.since)
                return
            yield self.rows[name]

    def _reaching(self, triggers: Iterable[_OfTrigger], query: FireQuery, since: int) -> list[FireRow]:
        """Ranges that began before ``since`` and reach it."""
        bound = query.bound
        found = (
            row
            for each in triggers
            for name, row in each.ranges.items()
            if row.scheduled < since <= row.last and (bound is None or name < bound)
        )
        return nlargest(query.limit, found, key=_identity)


class FireStore:
    """Rows of all tenants, ``rows_max`` at most; what is too much is let go by the tenant that has the most."""

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._count = 0
        self._tenants: dict[str, _OfTenant] = {}
        # The tenants by how many rows they have, so that the largest is found at once.
        self._by_size: dict[int, dict[str, None]] = {}
        self._largest = 0

    def __len__(self) -> int:
        return self._count

    def find(self, tenant: str, name: Identity) -> FireRow | None:
        """The row of that name."""
        of_tenant = self._tenants.get(tenant)
        return None if of_tenant is None else of_tenant.rows.get(name)

    def ranges(self, tenant: str, trigger: str) -> Iterable[FireRow]:
        """The ranges of a trigger, in no order."""
        of_tenant = self._tenants.get(tenant)
        of_trigger = None if of_tenant is None else of_tenant.triggers.get(trigger)
        return () if of_trigger is None else of_trigger.ranges.values()

    def newest(self, query: FireQuery) -> Iterator[FireRow]:
        """All rows that match, newest first; not to be changed meanwhile."""
        of_tenant = self._tenants.get(query.tenant)
        return iter(()) if of_tenant is None else of_tenant.newest(query)

    def last_changed(self, tenant: str) -> Iterator[FireRow]:
        """A tenant's rows, what changed last first."""
        of_tenant = self._tenants.get(tenant)
        return iter(()) if of_tenant is None else reversed(of_tenant.rows.values())

    def forgotten_through(self, tenant: str) -> int:
        """The newest change of a row of the tenant that was let go; 0 while none was."""
        of_tenant = self._tenants.get(tenant)
        return 0 if of_tenant is None else of_tenant.forgotten_through

    def complete_since(self, tenant: str) -> int | None:
        """From this instant on every row of the tenant is here; None: as far as the log goes."""
        of_tenant = self._tenants.get(tenant)
        return None if of_tenant is None else of_tenant.complete_since

    def put(self, row: FireRow) -> None:
        """Store a row as the one that changed last. May exceed the bound until ``shrink``."""
        of_tenant = self._tenants.setdefault(row.tenant, _OfTenant())
        if of_tenant.put(row):
            self._count += 1
            self._resized(row.tenant, len(of_tenant.rows) - 1, len(of_tenant.rows))

    def shrink(self) -> None:
        """Come down to the bound."""
        while self._count > self._rows_max:
            tenant = next(iter(self._by_size[self._largest]))
            of_tenant = self._tenants[tenant]
            of_tenant.forget_oldest()
            self._count -= 1
            self._resized(tenant, len(of_tenant.rows) + 1, len(of_tenant.rows))

    def _resized(self, tenant: str, was: int, now: int) -> None:
        if was:
            same = self._by_size[was]
            del same[tenant]
            if not same:
                del self._by_size[was]
        if now:
            self._by_size.setdefault(now, {})[tenant] = None
        # Sizes change by one, so the largest does too.
        if now > self._largest or self._largest not in self._by_size:
            self._largest = now


def _identity(row: FireRow) -> Identity:
    return row.identity
