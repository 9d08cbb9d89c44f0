"""Downloads and uploads by computes, which have no user here. Each request has a token that a conductor has signed
(`minova.image_tokens`).

They have an application of their own, so that a token opens these two routes and nothing else of the API.
"""

import logging
import threading
import time
from collections.abc import Callable

import falcon
from oslo_config import cfg

from minova import metrics
from minova.api.access.addresses import client_address, parse_networks
from minova.api.access.auth import printable
from minova.api.access.authenticator import Unauthenticated
from minova.api.http.definition import Route
from minova.api.image import data
from minova.api.image.definition import ImageDefinition
from minova.api.policies.base import AUTHENTICATED
from minova.api.policies.users import Identity
from minova.db.catalogue import image_token_keys
from minova.db.engine import Database
from minova.image_tokens import SCHEME, Keys, Right, TokenRefused, image_of

LOG = logging.getLogger(__name__)
# Seconds between two reads of the keys: usually, and if the known keys refuse a token.
FRESH = 10.0
FRESH_FOR_UNKNOWN = 1.0


_RIGHTS = {"PUT": Right.UPLOAD}
_FILE = "/v2/images/{image_id}/file"


class TokenKeys:
    """The keys and the time of the database, cached: requests with false tokens cost the database next to nothing."""

    def __init__(self, db: Database, ticks: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._ticks = ticks
        self._lock = threading.Lock()
        self._keys: Keys | None = None
        self._read_at = 0.0

    def get(self, fresh: float) -> Keys:
        """Returns keys that are at most `fresh` seconds old. Raises ServiceUnavailable if the database does
        not answer.
        """
        with self._lock:
            age = self._ticks() - self._read_at
            if self._keys is None or age > fresh:
                self._read_at = self._ticks()
                self._keys, age = image_token_keys.read(self._db), 0.0
            return Keys(now=self._keys.now + age, secrets=self._keys.secrets)


class TokenAuthenticator:
    """Accepts a token for one image and nothing else. Logs and counts refusals."""

    def __init__(self, conf: cfg.ConfigOpts, keys: TokenKeys) -> None:
        self._keys = keys
        self._trusted_proxies = parse_networks("[api] trusted_proxies", conf.api.trusted_proxies)

    def __call__(self, request: falcon.Request) -> Identity:
        token = (request.get_header("Authorization") or "").removeprefix(SCHEME).strip()
        try:
            image_id = self._image_of(token, _RIGHTS.get(request.method, Right.DOWNLOAD))
            if request.path != f"/v2/images/{image_id}/file":
                raise TokenRefused("other_request")
        except TokenRefused as error:
            self._refuse(request, error.reason)
            raise Unauthenticated("The token is not valid for this request.") from None
        return Identity(user_id="image-token", project_id="image-token", roles=())

    def _image_of(self, token: str, right: Right) -> str:
        try:
            return image_of(token, self._keys.get(FRESH), right)
        except TokenRefused:
            # Meanwhile a new key may exist, or the clock of the database may have been set.
            return image_of(token, self._keys.get(FRESH_FOR_UNKNOWN), right)

    def _refuse(self, request: falcon.Request, reason: str) -> None:
        forwarded_for = request.get_header("X-Forwarded-For") or ""
        address = client_address(request.remote_addr, forwarded_for, self._trusted_proxies)
        metrics.IMAGE_TOKENS_REFUSED.labels(reason).inc()
        LOG.warning("A token for an image was refused from %s: %s", printable(address), reason)


class TokenDefinition(ImageDefinition):
    routes = (
        Route(method="GET", path=_FILE, rule=AUTHENTICATED, handler=data.download_with_token),
        Route(method="PUT", path=_FILE, rule=AUTHENTICATED, handler=data.upload_with_token, status=204),
    )
    public = frozenset()
    automatic_options = False


def has_token(env: dict[str, object]) -> bool:
    """Whether a request has a token, by its WSGI environment."""
    return str(env.get("HTTP_AUTHORIZATION", "")).startswith(SCHEME)
