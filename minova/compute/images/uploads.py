"""Uploads an image that this host has made to the image service.

PUT /v2/images/ID/file --> 204: it is active
                       --> 401: once more with a fresh token
                       --> 409: an earlier upload is complete, or it broke off and is not given up yet: the conductor
                       knows which
                       --> 404, 410: the image was deleted meanwhile
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import urllib3
from oslo_config import cfg

from minova import errors
from minova.compute.images.downloads import IMAGE_SERVICE
from minova.compute.images.tokens import ImageToken
from minova.concurrency.outside_waits import waiting
from minova.image_tokens import SCHEME
from minova.objects.catalogue.image import Image

LOG = logging.getLogger(__name__)
CHUNK = 1 << 20
# PAUSE: seconds between two tries. PATIENCE: seconds to wait for an image service that is away or still has a broken
# upload.
PAUSE = 2.0
PATIENCE = 120.0
_CHECK_EVERY = 0.2
_REFUSALS: Mapping[int, type[errors.MinovaError]] = {
    403: errors.ImageQuotaExceeded,
    404: errors.ImageDeleted,
    410: errors.ImageDeleted,
    413: errors.ImageUnacceptable,
    400: errors.ImageUnacceptable,
    507: errors.DiskFull,
}


class Uploads(Protocol):
    """The destination of images that this host makes."""

    def upload(self, image: Image, path: Path, token: ImageToken, check: Callable[[], None]) -> None:
        """Uploads all bytes of the file; the image is active afterwards. `check` is called repeatedly; an exception of
        it ends the upload.

        Raises ImageDeleted, ImageQuotaExceeded, DiskFull, ImageUnacceptable or ServiceUnavailable. Raises the errors of
        `token.fresh` if the image service answers 409.
        """
        ...


class ImageUploads:
    """Uploads over HTTP. `pause` waits the given number of seconds between tries. `clock` returns monotonic seconds."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = conf.glance.endpoint_override.rstrip("/")
        self._pause = pause
        self._clock = clock
        self._http = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=conf.glance.timeout, read=conf.glance.timeout),
            retries=False,
            ca_certs=conf.glance.cafile or None,
            headers={"User-Agent": "minova-compute"},
        )

    def upload(self, image: Image, path: Path, token: ImageToken, check: Callable[[], None]) -> None:
        until = self._clock() + PATIENCE
        while (fault := self._try(image, path, token, check)) is not None:
            if self._clock() >= until:
                LOG.error("Image %s cannot be uploaded to %s: %s", image.id, self._url, fault)
                raise errors.ServiceUnavailable(f"Image {image.id} cannot be uploaded to the image service.")
            LOG.warning("The upload of image %s failed and is tried again: %s", image.id, fault)
            self._wait(check)

    def _try(self, image: Image, path: Path, token: ImageToken, check: Callable[[], None]) -> str | None:
        """Returns None if the upload succeeded, else the reason why it should be tried again."""
        try:
            response = self._send_file(image, path, token, check)
            if response.status == 401 and token.renewed() is not None:
                response = self._send_file(image, path, token, check)
        except urllib3.exceptions.HTTPError as error:
            return str(error)
        if response.status in range(200, 300):
            return None
        text = response.data[:500].decode(errors="replace")
        if response.status in _REFUSALS:
            raise _REFUSALS[response.status](f"Image {image.id} (HTTP {response.status}): {text}")
        if response.status == 409:
            token.fresh()
        return f"HTTP {response.status}: {text}"

    def _send_file(
        self, image: Image, path: Path, token: ImageToken, check: Callable[[], None]
    ) -> urllib3.BaseHTTPResponse:
        with path.open("rb") as file:
            headers = {
                **self._http.headers,
                "Authorization": f"{SCHEME}{token.value or ''}",
                "Content-Type": "application/octet-stream",
                "Content-Length": str(path.stat().st_size),
            }
            with waiting(IMAGE_SERVICE) as wait:
                body: Any = _Checked(file, check, wait.moved)
                return self._http.request(
                    "PUT", f"{self._url}/v2/images/{image.id}/file", body=body, headers=headers, redirect=False
                )

    def _wait(self, check: Callable[[], None]) -> None:
        with waiting(IMAGE_SERVICE):
            for _ in range(round(PAUSE / _CHECK_EVERY)):
                check()
                self._pause(_CHECK_EVERY)


class _Checked:
    """A file that calls `check` before each read, and `moved`, since what was read before has been sent by then."""

    def __init__(self, file: BinaryIO, check: Callable[[], None], moved: Callable[[], None]) -> None:
        self._file = file
        self._check = check
        self._moved = moved

    def read(self, size: int = -1) -> bytes:
        self._check()
        self._moved()
        return self._file.read(CHUNK if size is None or size < 0 else size)
