"""The token of an attempt: what shows that whoever reports its outcome was the one it was sent to.

It follows from the report key, the fire key and the attempt's number alone, so nothing is stored, and the same
attempt sent again carries the same one.
"""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

from fireledger.domain.identifiers import FireKey

TOKEN_HEADER = "fireledger-attempt-token"
"""The header of a call with the attempt's token."""
REPORT_TO_HEADER = "fireledger-report-to"
"""The header of a call with the address or subject that takes a report of its outcome."""
REPORT_KEY_BYTES = 32
TOKEN_LENGTH = 43
"""Characters of a token: 256 bits as base64url without padding."""
_PURPOSE = b"fireledger.attempt.v1\n"


class AttemptTokens:
    """Mints and checks tokens with one report key. The key never shows in ``repr``."""

    def __init__(self, key: bytes) -> None:
        """``key`` has REPORT_KEY_BYTES random bytes."""
        assert len(key) == REPORT_KEY_BYTES, "a report key has another length"
        self._key = key

    def __repr__(self) -> str:
        return "AttemptTokens()"

    def mint(self, key: FireKey, attempt: int) -> str:
        """The token of an attempt, TOKEN_LENGTH characters of ASCII."""
        digest = hmac.digest(self._key, _PURPOSE + f"{key}\n{attempt}".encode(), sha256)
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    def matches(self, token: str, key: FireKey, attempt: int) -> bool:
        """Whether it is the attempt's token; takes the same time whatever is wrong with it."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.mint(key, attempt).encode())
