"""Tokens for the right to download or upload the bytes of one image for a few minutes: signed by a conductor, checked
by the Image API.

    conductor --signs--> BuildMessage.image_token --> compute --Authorization: Bearer--> API checks: signature, image, time
    conductor --signs--> image_upload_token       --> compute --Authorization: Bearer--> the same, and that the image has no bytes

The two rights are signed with different salts: a token for one is no token for the other.

Conductor and API read the keys and the time from the database. So only the database's clock matters, not those of the
hosts. A key belongs to a period of that clock. It is accepted until the end of the next period, so each key outlives
every token that it has signed.
"""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from itsdangerous import BadData, URLSafeSerializer

from minova.codecs import Decoder

# Seconds. Less than PERIOD, so that a token expires before its key.
LIFETIME = 300.0
PERIOD = 3600.0
# Seconds by which the signer's reckoning of the database's clock may be ahead of the API's: each counts on from its own reading.
LEEWAY = 10.0
SCHEME = "Bearer "
_DIGEST = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}


class Right(StrEnum):
    """The rights of a token; the values are salts of the signatures."""

    DOWNLOAD = "minova.image-download"
    UPLOAD = "minova.image-upload"


class TokenRefused(Exception):
    """`reason` is one of a few words: invalid, expired."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Claims(msgspec.Struct, frozen=True, kw_only=True):
    """`expires`: seconds since the epoch, by the clock of the database."""

    image: str
    expires: float


_CLAIMS: Decoder[_Claims] = Decoder(_Claims)


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets by period, as read from the database at `now`, a time of the database's wall clock."""

    now: float
    secrets: Mapping[int, str]

    @property
    def period(self) -> int:
        return period_of(self.now)

    @property
    def accepted(self) -> list[str]:
        """Returns the accepted keys, oldest first. The key of the next period is included, because it may
        already have begun for the signer.
        """
        near = sorted(set(self.secrets) & {self.period - 1, self.period, self.period + 1})
        return [self.secrets[period] for period in near]


def period_of(now: float) -> int:
    return int(now // PERIOD)


def sign(secret: str, image_id: str, now: float, right: Right = Right.DOWNLOAD) -> str:
    """Returns a token for this image, valid for LIFETIME seconds from `now`."""
    return str(_serializer([secret], right).dumps({"image": image_id, "expires": now + LIFETIME}))


def image_of(token: str, keys: Keys, right: Right = Right.DOWNLOAD) -> str:
    """Returns the ID of the image that the token is for. Raises TokenRefused."""
    if not keys.accepted:
        raise TokenRefused("invalid")
    try:
        claims = _CLAIMS.from_builtins(_serializer(keys.accepted, right).loads(token))
    except (BadData, msgspec.ValidationError):
        raise TokenRefused("invalid") from None
    # A longer validity means that the token was signed before the clock was set back.
    if not 0 < claims.expires - keys.now <= LIFETIME + LEEWAY:
        raise TokenRefused("expired")
    return claims.image


def _serializer(secrets: list[str], right: Right) -> Any:
    """Returns a serializer that compares signatures in constant time."""
    return URLSafeSerializer(secrets, salt=right.value, signer_kwargs=_DIGEST)
