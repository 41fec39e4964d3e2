"""How appends are cut into atomic batches, and what a login shows of itself."""

from fireledger.domain.limits import BATCH_PAGES_MAX
from fireledger.runners.jetstream.connection import Login
from fireledger.runners.jetstream.ledger import BATCH_BYTES_MAX, Append, cut_batches


def _appends(count: int, size: int) -> list[Append]:
    return [Append(f"book.0.t{number}", bytes(size), str(number), 0) for number in range(count)]


def test_a_batch_is_within_the_brokers_count() -> None:
    """One more than the count opens a second batch, and order stays."""
    appends = _appends(BATCH_PAGES_MAX + 1, 1)
    batches = cut_batches(appends)
    assert [len(batch) for batch in batches] == [BATCH_PAGES_MAX, 1]
    assert [append for batch in batches for append in batch] == appends


def test_a_batch_is_within_our_bytes() -> None:
    """Large pages make smaller batches; one that alone is too large still gets its own."""
    batches = cut_batches(_appends(5, BATCH_BYTES_MAX // 2))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert [len(batch) for batch in cut_batches(_appends(2, BATCH_BYTES_MAX + 1))] == [1, 1]
    assert cut_batches([]) == []


def test_a_login_does_not_show_its_password() -> None:
    """Neither repr nor str of a login holds the password."""
    login = Login("nats://127.0.0.1:4222", "scheduler", "hush-hush")
    assert "hush" not in repr(login) + str(login)
