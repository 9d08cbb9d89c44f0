"""A client of a Glance beside minova. It uses the token of a user, or the user of `[service_user]`."""

import itertools
import json
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1.session import Session
from oslo_config import cfg

from minova import errors
from minova.outages import Outage
from minova.service_session import RETRIABLE, endpoint_of, send, session_of

LOG = logging.getLogger(__name__)
GROUP, USER = "glance", "service_user"
_PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
_AWAY = "The image service does not answer. Please try again in a moment."


_REFUSALS: dict[int, type[errors.MinovaError]] = {
    400: errors.BadRequest,
    403: errors.Forbidden,
    413: errors.Forbidden,  # its quotas
}
_REFUSALS_OF_CHANGES: dict[int, type[errors.MinovaError]] = {404: errors.NotFound, 409: errors.Conflict, **_REFUSALS}


def _message(answer: Any) -> str:
    """Returns Glance's own error text, which is in HTML or plain text."""
    text = re.sub(r"<[^>]*>", " ", str(answer.text))
    return " ".join(text.split())[:255] or f"status {answer.status_code}"


class GlanceClient:
    """Thread-safe. Raises InvalidConfiguration if `[service_user]` cannot be used."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf[GROUP]
        session = session_of(conf, USER, f"[{GROUP}] backend = glance")
        session.verify = options.cafile or session.verify
        self._session: Session = session
        self._tries = options.num_retries + 1
        self._timeout = options.timeout
        self._chunk_size = options.image_chunk_size
        self._servers = itertools.cycle([url.rstrip("/").removesuffix("/v2") for url in options.api_servers])
        self._named = bool(options.api_servers)
        self._lock = threading.Lock()
        self._catalog = endpoint_of(session, options)
        self._outage = Outage("Glance", LOG, gauge="glance")

    def image(self, image_id: str, token: str | None = None) -> dict[str, Any] | None:
        """Returns the document of an image; None if there is none, or if the user may not see it.

        `token`: of the user; None: the service user.
        """
        answer = self._ask("GET", f"/v2/images/{image_id}", token)
        if answer.status_code == 404 or (token is not None and answer.status_code in (401, 403)):
            return None
        document: dict[str, Any] = self._checked(answer).json()
        return document

    def data(self, image_id: str) -> "ImageData":
        """Returns the bytes, as the service user. Raises NotFound if there are none."""
        answer = self._ask("GET", f"/v2/images/{image_id}/file", None, stream=True)
        if answer.status_code in (204, 404):
            answer.close()
            raise errors.NotFound(f"Image {image_id} has no data.")
        return ImageData(self._checked(answer), self._chunk_size)

    def page(self, query: dict[str, str], token: str) -> list[dict[str, Any]]:
        """Returns the documents of the images that the user sees. Raises BadRequest or Forbidden if Glance refuses the
        query.
        """
        answer = self._ask("GET", f"/v2/images?{urlencode(query)}", token)
        documents: list[dict[str, Any]] = self._of_user(answer).json()["images"]
        return documents

    def patch(self, image_id: str, operations: list[dict[str, Any]], token: str) -> None:
        """Changes an image as the user. Raises NotFound, BadRequest, Forbidden or Conflict if Glance refuses the
        change.
        """
        body = json.dumps(operations).encode()
        self._of_user(self._ask("PATCH", f"/v2/images/{image_id}", token, data=body, headers=_PATCH))

    def remove(self, image_id: str, token: str) -> None:
        """Deletes an image as the user. Raises NotFound, Forbidden or Conflict if Glance refuses that."""
        answer, tries = self._tried("DELETE", f"/v2/images/{image_id}", token)
        # 404 after a failed try: an earlier try has deleted the image.
        if answer.status_code != 204 and (answer.status_code != 404 or tries == 1):
            self._of_user(answer)

    def create(self, document: dict[str, Any], token: str) -> None:
        """Makes an image as the user. If it exists, an earlier try has made it.

        Raises Forbidden or BadRequest if Glance refuses the image.
        """
        answer = self._ask("POST", "/v2/images", token, json=document)
        if answer.status_code in (201, 409):
            return
        kind = _REFUSALS.get(answer.status_code)
        if kind is None:
            self._checked(answer)
            raise errors.ServiceUnavailable(_AWAY)
        raise kind(f"The image service refuses the image: {_message(answer)}")

    def delete(self, image_id: str) -> None:
        """Deletes an image as the service user. Ignores an image that is gone, or that its owner has
        protected since.
        """
        answer = self._ask("DELETE", f"/v2/images/{image_id}", None)
        if answer.status_code not in (204, 404, 403):
            self._checked(answer)

    def upload(self, image_id: str, chunks: Iterator[bytes]) -> None:
        """Uploads the bytes as the service user. Does not retry, because the bytes come from a stream.

        Raises NotFound, Forbidden, Conflict or ServiceUnavailable.
        """
        try:
            # The session does not authenticate this request: after a 401 it would send what is left of the bytes once
            # more.
            headers = {"X-Auth-Token": self._session.get_token(), "Content-Type": "application/octet-stream"}
            answer = self._session.request(
                f"{self._server()}/v2/images/{image_id}/file",
                "PUT",
                authenticated=False,
                headers=headers,
                data=chunks,
                connect_retries=0,
                raise_exc=False,
                redirect=False,
                timeout=self._timeout,
                log=False,
            )
        except keystone_errors.ClientException as error:
            LOG.warning("The upload of image %s to Glance failed: %s", image_id, error)
            raise errors.ServiceUnavailable(_AWAY) from None
        if answer.status_code == 204:
            return
        if answer.status_code == 401:
            self._session.invalidate()
        if answer.status_code in (404, 410):
            raise errors.NotFound(f"No image found with ID {image_id}.")
        if answer.status_code == 409 and (self.image(image_id) or {}).get("status") == "active":
            return
        LOG.warning("Glance answers the upload of image %s with status %d", image_id, answer.status_code)
        kind = _REFUSALS.get(answer.status_code, errors.ServiceUnavailable)
        raise kind(f"The image service refuses the image: {_message(answer)}")

    def _of_user(self, answer: Any) -> Any:
        """Raises an error with Glance's text if Glance refuses the request."""
        kind = _REFUSALS_OF_CHANGES.get(answer.status_code)
        if kind is not None:
            raise kind(f"The image service refuses the request: {_message(answer)}")
        return self._checked(answer)

    def _ask(self, method: str, path: str, token: str | None, **more: Any) -> Any:
        """Returns the first answer that is not a server's failure. Raises ServiceUnavailable if all tries fail."""
        return self._tried(method, path, token, **more)[0]

    def _tried(
        self, method: str, path: str, token: str | None, *, headers: Mapping[str, str] = {}, **more: Any
    ) -> tuple[Any, int]:
        """The same as `_ask`, with the number of tries."""
        headers = {"Accept-Encoding": "identity", **headers}
        reason: object = None
        for number in range(1, self._tries + 1):
            try:
                answer = send(self._session, method, f"{self._server()}{path}", token, headers, self._timeout, **more)
            except keystone_errors.ClientException as error:
                reason = error
            else:
                if answer.status_code not in RETRIABLE:
                    self._outage.answered()
                    return answer, number
                reason = f"it answers {method} {path.partition('?')[0]} with status {answer.status_code}"
                answer.close()
            LOG.debug("Glance, try %d of %d: %s", number, self._tries, reason)
        self._outage.failed(reason)
        raise errors.ServiceUnavailable(_AWAY)

    def _server(self) -> str:
        """Returns the next of `[glance] api_servers` in turn, or else the address in the catalog."""
        if self._named:
            with self._lock:
                return str(next(self._servers))
        url = self._catalog.get_endpoint()
        if url is None:
            raise keystone_errors.EndpointNotFound("no image service in the catalog")
        return str(url).rstrip("/").removesuffix("/v2")

    def _checked(self, answer: Any) -> Any:
        if answer.status_code != 200:
            LOG.error("Glance answers with status %d to %s", answer.status_code, answer.url)
            answer.close()
            raise errors.ServiceUnavailable(_AWAY)
        return answer


class ImageData:
    """The bytes of an image, as a file that can be read once. `length` in bytes, if Glance reports it."""

    def __init__(self, answer: Any, chunk_size: int) -> None:
        announced = answer.headers.get("Content-Length", "")
        self.length = int(announced) if announced.isdecimal() else None
        self._answer = answer
        self._chunks: Iterator[bytes] = answer.iter_content(chunk_size)

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def read(self, amount: int | None = None, /) -> bytes:
        return next(self._chunks, b"")

    def close(self) -> None:
        with suppress(OSError):
            self._answer.close()
