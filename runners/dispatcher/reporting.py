"""What a call carries so that its executor can report the outcome later."""

from dataclasses import dataclass

from fireledger.domain.checks import NATS_PREFIX
from fireledger.domain.identifiers import FireKey

from ..attempt_tokens import REPORT_TO_HEADER, TOKEN_HEADER, AttemptTokens
from ..jetstream.topology import outcome_subject


@dataclass(frozen=True, slots=True)
class Reporting:
    """Makes the headers of calls; ``url`` is where HTTP executors report, empty when they cannot."""

    tokens: AttemptTokens
    url: str

    def headers(self, key: FireKey, attempt: int, target: str) -> dict[str, str]:
        """The attempt's token, and where a report of its outcome goes."""
        where = outcome_subject(key.tenant) if target.startswith(NATS_PREFIX) else self.url
        headers = {TOKEN_HEADER: self.tokens.mint(key, attempt)}
        return {**headers, REPORT_TO_HEADER: where} if where else headers
