"""What an authenticator is, and what it reads from a request beside its headers."""

from typing import Protocol

import falcon

from minova import errors
from minova.api.policies.users import Identity

CHALLENGE = 'Basic realm="minova", charset="UTF-8"'
# The key of the WSGI environment that holds the service type, as in a catalog, of the requested API.
SERVICE_TYPE = "minova.service_type"
# The key of the WSGI environment that holds the path as the client sent it.
CLIENT_PATH = "minova.client_path"
# The key of the WSGI environment that holds a callable: it waits for the place of the request, by its project. Absent: none is
# needed. Raises ServiceUnavailable if too many requests wait.
ENTER = "minova.enter"


class Unauthenticated(errors.Unauthorized):
    """The answer has a challenge (WWW-Authenticate)."""

    def __init__(self, message: str, challenge: str = CHALLENGE) -> None:
        super().__init__(message)
        self.challenge = challenge


class Authenticator(Protocol):
    def __call__(self, request: falcon.Request) -> Identity: ...
