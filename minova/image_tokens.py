"""The right to download the bytes of one image for a few minutes, or to upload them: signed by a conductor, checked by the Image API.

    conductor --signs--> BuildMessage.image_token --> compute --Authorization: Bearer--> API checks: signature, image, time
    conductor --signs--> image_upload_token       --> compute --Authorization: Bearer--> the same, and that the image has no bytes

The two rights are signed with different salts: a token for one is no token for the other.

Both read the keys and the time from the database: its clock is the one clock here, whatever clocks the hosts have. A key belongs
to a period of that clock. It is accepted until the end of the next period, so each key outlives every token that it has signed.
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
SCHEME = "Bearer "
_DIGEST = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}


class Right(StrEnum):
    """What a token permits; the values are salts of the signatures."""

    DOWNLOAD = "minova.image-download"
    UPLOAD = "minova.image-upload"


class TokenRefused(Exception):
    """`reason`, one of few words: invalid, expired."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Claims(msgspec.Struct, frozen=True, kw_only=True):
    """`expires`: seconds since the epoch, by the clock of the database."""

    image: str
    expires: float


_CLAIMS: Decoder[_Claims] = Decoder(_Claims)


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets by their periods, as the database had them at `now`, by its wall clock."""

    now: float
    secrets: Mapping[int, str]

    @property
    def period(self) -> int:
        return period_of(self.now)

    @property
    def accepted(self) -> list[str]:
        """Oldest first. The next period's: it may have begun for the signer."""
        near = sorted(set(self.secrets) & {self.period - 1, self.period, self.period + 1})
        return [self.secrets[period] for period in near]


def period_of(now: float) -> int:
    return int(now // PERIOD)


def sign(secret: str, image_id: str, now: float, right: Right = Right.DOWNLOAD) -> str:
    """A token for this image, valid from `now` for LIFETIME seconds."""
    return str(_serializer([secret], right).dumps({"image": image_id, "expires": now + LIFETIME}))


def image_of(token: str, keys: Keys, right: Right = Right.DOWNLOAD) -> str:
    """The id of the image that the token is for. Raises TokenRefused."""
    if not keys.accepted:
        raise TokenRefused("invalid")
    try:
        claims = _CLAIMS.from_builtins(_serializer(keys.accepted, right).loads(token))
    except (BadData, msgspec.ValidationError):
        raise TokenRefused("invalid") from None
    # One that is valid for longer was signed before the clock stepped back.
    if not 0 < claims.expires - keys.now <= LIFETIME:
        raise TokenRefused("expired")
    return claims.image


def _serializer(secrets: list[str], right: Right) -> Any:
    """Compares signatures in constant time."""
    return URLSafeSerializer(secrets, salt=right.value, signer_kwargs=_DIGEST)
