"""The contract of authenticators."""

from typing import Protocol

import falcon

from minova import errors
from minova.api.policies.users import Identity

CHALLENGE = 'Basic realm="minova", charset="UTF-8"'


class Unauthenticated(errors.Unauthorized):
    """The answer has a challenge (WWW-Authenticate)."""

    def __init__(self, message: str, challenge: str = CHALLENGE) -> None:
        super().__init__(message)
        self.challenge = challenge


class Authenticator(Protocol):
    def __call__(self, request: falcon.Request) -> Identity: ...
