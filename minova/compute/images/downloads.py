"""Downloads of images from the image service over HTTP, tried again while that may help."""

import contextlib
import hashlib
import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
import urllib3
from oslo_config import cfg

from minova import errors
from minova.backoff import Backoff
from minova.compute.images.cached_files import ALGORITHMS
from minova.compute.images.tokens import ImageToken, tokens_to_try
from minova.concurrency.outside_waits import waiting
from minova.image_tokens import SCHEME
from minova.objects.catalogue.image import Image
from minova.private_files import sync

LOG = logging.getLogger(__name__)
CHUNK = 1 << 20
# What builds wait for (`outside_waits`).
IMAGE_SERVICE = "the image service"
BACKOFF = Backoff(first=0.4, longest=5.0)
_UUID_LIKE = re.compile(r"[0-9A-Za-z-]{1,64}")


class DownloadFailed(Exception):
    """A failed download that may succeed when it is tried again."""


class DownloadMismatch(DownloadFailed):
    """The downloaded bytes are not the bytes of the image."""


class Builds(msgspec.Struct, frozen=True, kw_only=True):
    """The builds that wait for a download. `tokens` returns their tokens for it; `require_waiting` raises if none waits any more."""

    tokens: Callable[[], Sequence[ImageToken]] = tuple
    require_waiting: Callable[[], None] = lambda: None


class ImageDownloads:
    """Safe for threads. `pause` waits the given number of seconds between tries."""

    def __init__(self, conf: cfg.ConfigOpts, *, pause: Callable[[float], None] = time.sleep) -> None:
        self._url = conf.glance.endpoint_override.rstrip("/")
        self._tries = conf.glance.num_retries + 1
        self._pause = pause
        self._password = _password(conf)
        self._http = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=conf.glance.timeout, read=conf.glance.timeout),
            retries=False,
            ca_certs=conf.glance.cafile or None,
            headers={"User-Agent": "minova-compute"},
        )

    def require_there(self, image: Image, token: ImageToken | None = None) -> None:
        """Reads only the beginning of the answer. Raises the errors of `save`."""
        builds = Builds(tokens=lambda: () if token is None else (token,))
        self._with_retries(builds, image, lambda: self._inspect(builds, image))

    def save(self, image: Image, path: Path, builds: Builds, require_room: Callable[[int], None]) -> None:
        """Writes the bytes of the image, checked by their digest, to `path`. Calls `require_room` with a number of bytes before it writes them.

        Raises ImageUnacceptable, ImageWithheld or ServiceUnavailable, and the errors of `builds` and `require_room`.
        """
        self._with_retries(builds, image, lambda: self._try(builds, path, image, require_room))

    def _with_retries(self, builds: Builds, image: Image, attempt: Callable[[], None]) -> None:
        for number in range(1, self._tries + 1):
            builds.require_waiting()
            try:
                attempt()
                return
            except (DownloadFailed, urllib3.exceptions.HTTPError) as error:
                LOG.warning("Download %d of %d of image %s failed: %s", number, self._tries, image.id, error)
                last = error
            if number < self._tries:
                with waiting(IMAGE_SERVICE):
                    self._pause(BACKOFF.pause(number))
        if isinstance(last, DownloadMismatch):
            raise errors.ImageUnacceptable(f"Image {image.id}: {last}") from last
        # The URL of the image service is only logged: the text of the exception becomes the fault of the server, which
        # users read.
        LOG.error("Image %s cannot be fetched from %s: %s", image.id, self._url, last)
        raise errors.ServiceUnavailable(f"Image {image.id} cannot be fetched from the image service.") from last

    def _inspect(self, builds: Builds, image: Image) -> None:
        with waiting(IMAGE_SERVICE), self._get(self._address(image), builds) as response:
            self._refuse_status(response.status, image, builds)
            length = response.headers.get("Content-Length")
            if length is not None and image.size is not None and length != str(image.size):
                raise DownloadMismatch(f"{image.size} bytes expected, {length} are there")
            if image.size and not response.read(1):
                raise DownloadFailed("no byte came")

    def _address(self, image: Image) -> str:
        # The id comes from the image service itself, but an id that would change the path must not get into a URL.
        if not _UUID_LIKE.fullmatch(image.id):
            raise errors.ImageUnacceptable(f"Image id {image.id!r} is none")
        return f"{self._url}/v2/images/{image.id}/file"

    def _try(self, builds: Builds, path: Path, image: Image, require_room: Callable[[int], None]) -> None:
        def check() -> None:
            builds.require_waiting()
            require_room(CHUNK)

        with (
            waiting(IMAGE_SERVICE) as wait,
            self._get(self._address(image), builds) as response,
            path.open("wb") as file,
        ):
            self._refuse_status(response.status, image, builds)
            require_room(image.size or 0)
            digest = _save(response, file, image, check, wait.moved)
        sync(path)
        if digest != image.os_hash_value:
            raise DownloadMismatch(f"{image.os_hash_algo} expected {image.os_hash_value}, got {digest}")

    @contextlib.contextmanager
    def _get(self, url: str, builds: Builds) -> Iterator[urllib3.BaseHTTPResponse]:
        """Yields the response to the first credentials that the image service accepts, or else the response to the last
        ones.
        """
        response = None
        for credentials in self._credentials(builds):
            if response is not None:
                response.close()
            headers = {**self._http.headers, **credentials}
            response = self._http.request("GET", url, preload_content=False, redirect=False, headers=headers)
            if response.status != 401:
                break
        assert response is not None
        try:
            yield response
        finally:
            # A connection whose response was not read to its end cannot be reused.
            response.close()

    def _credentials(self, builds: Builds) -> Iterator[dict[str, str]]:
        """Yields headers to try in turn: the configured password, or else tokens. Without either it yields empty
        headers, since an image service may need no credentials.
        """
        if self._password:
            yield self._password
            return
        none_given = True
        for token in tokens_to_try(builds.tokens):
            none_given = False
            yield {"Authorization": f"{SCHEME}{token}"}
        if none_given:
            yield {}

    def _refuse_status(self, status: int, image: Image, builds: Builds) -> None:
        if status == 200:
            return
        if status in {404, 410}:
            raise errors.ImageWithheld(f"Image {image.id} is not at the image service (HTTP {status})")
        if status == 403 and not self._password and any(token.value for token in builds.tokens()):
            # The token was accepted; the image may not be downloaded.
            raise errors.ImageWithheld(f"Image {image.id} has been deactivated")
        if status in {401, 403}:
            raise errors.ServiceUnavailable(
                f"The image service refuses image {image.id} (HTTP {status}): {self._advice(builds)}"
            )
        raise DownloadFailed(f"HTTP {status}")

    def _advice(self, builds: Builds) -> str:
        if self._password:
            return "see [glance] username and password"
        if any(token.value for token in builds.tokens()):
            return "it does not accept the token of the conductor. Is it an API of this release, with the conductors' database?"
        return (
            "no conductor gave a token for it. Conductors of 0.1.0 have none: upgrade them, or set [glance] username and "
            "password until then"
        )


def _password(conf: cfg.ConfigOpts) -> dict[str, str]:
    if not conf.glance.username:
        return {}
    return {
        "Authorization": urllib3.make_headers(basic_auth=f"{conf.glance.username}:{conf.glance.password or ''}")[
            "authorization"
        ]
    }


def _save(
    response: urllib3.BaseHTTPResponse,
    file: BinaryIO,
    image: Image,
    check: Callable[[], None],
    moved: Callable[[], None],
) -> str:
    """Saves the response and returns its digest. Raises DownloadFailed if too many or too few bytes came. `check` may raise
    between two chunks. Calls `moved` whenever bytes have come.
    """
    digest = hashlib.new(image.os_hash_algo or ALGORITHMS[0])
    limit = math.inf if image.size is None else image.size
    checked_at = -CHUNK
    # As soon as any bytes come: a whole chunk may take many seconds.
    while chunk := response.read1(CHUNK, decode_content=False):
        moved()
        if file.tell() >= checked_at + CHUNK:
            check()
            checked_at = file.tell()
        digest.update(chunk)
        file.write(chunk)
        if file.tell() > limit:
            raise DownloadMismatch(f"size expected {image.size} bytes, got more")
    if image.size is not None and file.tell() != image.size:
        raise DownloadFailed(f"size expected {image.size} bytes, got {file.tell()}")
    return digest.hexdigest()
