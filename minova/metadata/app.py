"""The metadata service as a WSGI application."""

import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from minova import errors
from minova.api.access.wsgi_keys import ENTER
from minova.metadata import paths
from minova.metadata.guests import GuestIdentity, Guests
from minova.metadata.paths import Document
from minova.metadata.recent import Rates, RecentValues
from minova.objects.guests.guest_metadata import LONGEST_PASSWORD
from minova.virt.config_drive.builder import GuestFiles
from minova.virt.driver.domains import GuestData

LOG = logging.getLogger(__name__)
READS = ("GET", "HEAD")


class TooManyRequests(errors.MinovaError):
    code = 429


class NotAllowed(errors.MinovaError):
    code = 405


class GuestDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """The data of one guest."""

    instance_uuid: str
    files: dict[str, bytes]
    password: str


class MetadataApp:
    """`seconds`: how long an answer of the conductor is cached."""

    def __init__(self, guests: Guests, files: GuestFiles, seconds: float) -> None:
        self._guests = guests
        self._files = files
        self._recent: RecentValues[GuestDocuments] = RecentValues(seconds)
        # Apart, so that many addresses do not push the rates of guests out.
        self._rates, self._rates_of_guests, self._rates_of_strangers = Rates(), Rates(), Rates()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        headers = []
        try:
            status, document = HTTPStatus.OK, self._answer(environ)
        except errors.MinovaError as error:
            status = HTTPStatus(error.code)
            document = Document(content=f"{error}\n".encode())
            if error.code >= 500:
                LOG.warning("Metadata cannot be answered: %s", error)
                document = Document(content=b"The metadata cannot be read now.\n")
            if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
                headers.append(("Retry-After", "1"))
        except Exception:
            LOG.exception("A request for metadata failed")
            status, document = HTTPStatus.INTERNAL_SERVER_ERROR, Document(content=b"The request failed.\n")
        headers += [("Content-Type", document.media_type), ("Content-Length", str(len(document.content)))]
        start_response(f"{status.value} {status.phrase}", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else document.content]

    def _answer(self, environ: dict[str, Any]) -> Document:
        caller = self._guests.caller(environ)
        if not self._rates.take(caller):
            raise TooManyRequests("Too many requests.")
        if ENTER in environ:
            environ[ENTER](caller.owner)
        path = paths.parts(environ["PATH_INFO"])
        if paths.is_password(path):
            return self._password(environ, caller)
        document = paths.document(self._documents_of(caller).files, path)
        if document is None:
            raise errors.NotFound("This path has no document.")
        if environ["REQUEST_METHOD"] not in READS:
            raise NotAllowed("Only a password is written.")
        return document

    def _documents_of(self, caller: GuestIdentity) -> GuestDocuments:
        """Raises TooManyRequests if the guest, which may have several addresses, has none left."""
        guest = self._recent.get(caller, lambda: self._read(caller), errors.NotFound)
        if not self._rates_of_guests.take(guest.instance_uuid):
            raise TooManyRequests("Too many requests.")
        return guest

    def _read(self, caller: GuestIdentity) -> GuestDocuments:
        """Raises TooManyRequests if the owner has asked too often for guests that there are not."""
        if not self._rates_of_strangers.has_left(caller.owner):
            raise TooManyRequests("Too many requests.")
        try:
            guest = self._guests.read(caller)
        except errors.NotFound:
            self._rates_of_strangers.take(caller.owner)
            raise
        try:
            files = self._files.of(guest.instance, GuestData(availability_zone=guest.availability_zone))
        except ValueError as error:
            LOG.warning("The metadata of instance %s cannot be made: %s", guest.instance.uuid, error)
            raise errors.MinovaError("The metadata cannot be made.") from error
        return GuestDocuments(instance_uuid=guest.instance.uuid, files=files, password=guest.password)

    def _password(self, environ: dict[str, Any], caller: GuestIdentity) -> Document:
        password = self._documents_of(caller).password
        if environ["REQUEST_METHOD"] in READS:
            return Document(content=password.encode())
        if environ["REQUEST_METHOD"] != "POST":
            raise NotAllowed("A password is read, or left by POST.")
        content = environ["wsgi.input"].read(LONGEST_PASSWORD + 1)
        if len(content) > LONGEST_PASSWORD:
            raise errors.BadRequest("Request is too large.")
        try:
            encrypted = content.decode()
        except UnicodeDecodeError:
            raise errors.BadRequest("The password is no text.") from None
        self._guests.leave_password(caller, encrypted)
        self._recent.forget(caller)
        return Document(content=b"")
