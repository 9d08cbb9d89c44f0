"""The HTTP client of minova-api: sends and receives JSON, checks responses, and turns every failure into a readable
line.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import (
    HTTPError,
    InsecureRequestWarning,
    LocationParseError,
    NewConnectionError,
    ProtocolError,
    SSLError,
    TimeoutError,
)

from minova.cli.error_text import error_message, innermost_reason, next_marker, redact_body
from minova.cli.errors import ApiError, CliError, Unreachable, UsageError

if TYPE_CHECKING:
    from minova.cli.cloud import CloudSession

COMPUTE = "/v2.1"
IMAGE = "/v2"
# The header of answers in safe mode, with the reason.
SAFE_MODE = "X-Minova-Safe-Mode"
NETWORK = "/network/v2.0"
# Connections that are kept for commands that ask for several things at once.
MOST_CONNECTIONS = 8
CONNECT_TIMEOUT = 10.0  # seconds
READ_TIMEOUT = 60.0  # seconds; an image's last byte may be followed by checks, so uploads wait longer
UPLOAD_TIMEOUT = 900.0  # seconds
UPLOAD = urllib3.Timeout(connect=CONNECT_TIMEOUT, read=UPLOAD_TIMEOUT)
# Seconds between retries of a request that may be repeated.
RETRY_PAUSES: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
PAGE = 1000  # items: the maximum of an API; without a limit the Image API returns 25
RETRY_SECONDS = 30.0  # seconds after which the next failure is final

Json = dict[str, Any]


class RequestedAction(NamedTuple):
    """The response to an action of a server. `request_id` names its record in os-instance-actions; `created`: the ID of the image that
    the action makes, else empty.
    """

    answer: Json
    request_id: str
    created: str


class Client:
    """`debug` prints each request and response on stderr, without passwords. A client of `of_cloud` gets its login and
    the address of each API from the cloud.
    """

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        cacert: str | None = None,
        debug: bool = False,
    ) -> None:
        self.url = _checked_url(url)
        self.cacert = cacert
        self._debug = debug
        self._pauses = RETRY_PAUSES
        self._warned: set[str] = set()
        self._username = username
        # The header below requests minova's own fields, too.
        self._cloud: CloudSession | None = None
        self._headers = {"Accept": "application/json", "User-Agent": "minova", "X-Minova-Fields": "all"}
        if username is not None:
            self._headers |= _basic(username, password or "")
        _check_readable(cacert)
        self._pool = urllib3.PoolManager(
            maxsize=MOST_CONNECTIONS,
            retries=False,
            ca_certs=cacert,
            cert_reqs="CERT_REQUIRED",
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=READ_TIMEOUT),
        )

    @classmethod
    def of_cloud(cls, cloud: "CloudSession", *, debug: bool = False) -> "Client":
        """Creates a client for a cloud of clouds.yaml or of OS_* variables."""
        client = cls(cloud.url(COMPUTE).removesuffix(COMPUTE), cacert=cloud.cacert, debug=debug)
        client._cloud = cloud
        client._pool.connection_pool_kw |= {"cert_file": cloud.cert_file, "key_file": cloud.key_file}
        if not cloud.verify:
            # The user chose it; a warning at each request would add nothing.
            urllib3.disable_warnings(InsecureRequestWarning)
            client._pool.connection_pool_kw |= {"cert_reqs": "CERT_NONE"}
        return client

    def without_retries(self) -> "Client":
        """Returns the same client without retries, for callers that poll."""
        other = copy(self)
        other._pauses = ()
        return other

    def at(self, version: str) -> "Client":
        """Returns the same client with this microversion of Compute, for functions that earlier ones lack."""
        other = copy(self)
        other._headers = {**self._headers, "OpenStack-API-Version": f"compute {version}"}
        return other

    def owner(self, kind: str, name_or_id: str, domain: str | None = None) -> str:
        """Returns the ID of a `project` or `user`. Raises CliError if Keystone has none, UsageError if a domain is
        given without Keystone.

        Without Keystone the name is the ID.
        """
        if self._cloud is not None:
            return self._cloud.owner(kind, name_or_id, domain)
        if domain is not None:
            raise UsageError(f"--{kind}-domain is for clouds with Keystone (--os-cloud or OS_AUTH_URL).")
        return name_or_id

    def own_project(self) -> str:
        """Returns the ID of the caller's project."""
        if self._cloud is not None:
            return self._cloud.own_project()
        # With HTTP basic authentication each user has a project; without a login there is one project for all.
        return self._username or "admin"

    def users_of(self, project: str, domain: str | None = None) -> list[str]:
        """Returns the IDs of the users with a role on the project. Raises as `owner`, and UsageError without Keystone,
        since only Keystone knows the users.
        """
        if self._cloud is None:
            raise UsageError(
                "--project is for clouds with Keystone (--os-cloud or OS_AUTH_URL), which knows its users."
            )
        return self._cloud.users_of(self.owner("project", project, domain))

    def get(self, path: str, **query: Any) -> Json:
        """Sends a GET. Retries if the connection is lost or the API responds with 503: a GET is idempotent."""
        answered = {key: value for key, value in query.items() if value is not None}
        return self._retry("GET", f"{path}?{urlencode(answered, doseq=True)}" if answered else path, None, {})

    def post(self, path: str, body: Json, headers: Mapping[str, str] | None = None, *, repeat: bool = False) -> Json:
        """Sends a POST. Set `repeat` only if the API can distinguish a repetition from a second request."""
        ask = self._retry if repeat else self._once
        return ask("POST", path, body, headers or {})

    def request_action(self, server: str, body: Json) -> RequestedAction:
        """Requests an action of the server with this ID."""
        path = f"{COMPUTE}/servers/{part(server)}/action"
        data = json.dumps(body).encode()
        answer = self._request("POST", path, data, {"Content-Type": "application/json"}, shown=body)
        created = str(answer.headers.get("Location") or "").rpartition("/")[2]
        return RequestedAction(self._decode(answer.status, answer.data), _request_id(answer), created)

    def put(self, path: str, body: Json | None) -> Json:
        return self._once("PUT", path, body, {})

    def patch_image(self, path: str, operations: list[Json]) -> Json:
        headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
        return self._send("PATCH", path, json.dumps(operations).encode(), headers)

    def delete(self, path: str) -> None:
        """Sends a DELETE. Retries as a GET does. A 404 after a lost response is not an error: the first request has
        deleted the object.
        """
        try:
            self._once("DELETE", path, None, {})
        except Unreachable as lost:
            if isinstance(lost.__cause__, NewConnectionError):
                raise
            try:
                self._retry("DELETE", path, None, {})
            except ApiError as error:
                if error.status != 404:
                    raise

    def upload(self, path: str, data: BinaryIO, size: int) -> None:
        """PUT `size` bytes of `data` as they are read."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        self._send("PUT", path, data, headers, timeout=UPLOAD)

    def download(self, path: str, file: BinaryIO, chunk: int) -> None:
        """Writes the bytes of the answer to the file as they arrive. Raises CliError if they end too early."""
        answer = self._request("GET", path, None, {}, timeout=UPLOAD, preload_content=False)
        try:
            if answer.status == 204:
                raise CliError("The image has no bytes yet.")
            if answer.status >= 300:
                self._decode(answer.status, answer.read())
            file.writelines(answer.stream(chunk))
        except HTTPError as error:
            raise self._unreachable(error) from error
        finally:
            answer.release_conn()

    def pages(self, path: str, key: str, *, limit: int | None = None, **query: Any) -> Iterator[Json]:
        """Yields every item of a listing, at most `limit`. Follows OpenStack's `next` links from page to page."""
        remaining = limit
        while True:
            page = self.get(path, limit=PAGE if remaining is None else min(remaining, PAGE), **query)
            items = page.get(key, [])
            yield from items if remaining is None else items[:remaining]
            marker = next_marker(page, key)
            remaining = None if remaining is None else remaining - len(items)
            if (
                not items
                or marker is None
                or marker == query.get("marker")
                or (remaining is not None and remaining <= 0)
            ):
                return
            query["marker"] = marker

    def _retry(self, method: str, path: str, body: Json | None, headers: Mapping[str, str]) -> Json:
        until = time.monotonic() + RETRY_SECONDS
        for number, pause in enumerate(self._pauses):
            try:
                return self._once(method, path, body, headers)
            except Unreachable as lost:
                # Fail at once if nothing listens at first; a service that answered a moment ago may be restarting.
                absent = isinstance(lost.__cause__, (NewConnectionError, SSLError)) and number == 0
                if absent or time.monotonic() > until:
                    raise
                if number == 1:
                    print(f"minova: {lost} Asking again ...", file=sys.stderr)
            time.sleep(pause)
        return self._once(method, path, body, headers)

    def _once(self, method: str, path: str, body: Json | None, headers: Mapping[str, str]) -> Json:
        data = None if body is None else json.dumps(body).encode()
        extra = dict(headers) if body is None else {**headers, "Content-Type": "application/json"}
        return self._send(method, path, data, extra, shown=body)

    def _send(
        self,
        method: str,
        path: str,
        data: bytes | BinaryIO | None,
        headers: Mapping[str, str],
        *,
        shown: Json | None = None,
        timeout: urllib3.Timeout | None = None,
    ) -> Json:
        answer = self._request(method, path, data, headers, shown=shown, timeout=timeout)
        return self._decode(answer.status, answer.data)

    def _request(
        self,
        method: str,
        path: str,
        data: bytes | BinaryIO | None,
        headers: Mapping[str, str],
        *,
        shown: Json | None = None,
        timeout: urllib3.Timeout | None = None,
        preload_content: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        url = self.url + path if self._cloud is None else self._cloud.url(path)
        login = {} if self._cloud is None else self._cloud.headers()
        self._trace(f"> {method} {url}{'' if shown is None else ' ' + redact_body(shown)}")
        started = time.monotonic()
        more: Any = {} if timeout is None else {"timeout": timeout}
        more["preload_content"] = preload_content
        try:
            answer = self._pool.request(
                method, url, body=data, headers={**self._headers, **login, **headers}, redirect=False, **more
            )
        except (HTTPError, OSError) as error:
            self._trace(f"< {type(error).__name__}: {error}")
            raise self._unreachable(error) from error
        milliseconds = (time.monotonic() - started) * 1000
        size = len(answer.data) if preload_content else answer.headers.get("Content-Length", "some")
        self._trace(f"< {answer.status} in {milliseconds:.0f} ms, {size} bytes {_request_id(answer)}")
        self._warn_of_safe_mode(answer.headers.get(SAFE_MODE))
        return answer

    def _warn_of_safe_mode(self, reason: str | None) -> None:
        """Says once for each command that the cloud changes nothing."""
        if reason is not None and reason not in self._warned:
            self._warned.add(reason)
            printable = "".join(character for character in reason if character.isprintable())
            print(f"minova: the cloud is in safe mode and changes nothing: {printable}.", file=sys.stderr)

    def _decode(self, status: int, data: bytes) -> Json:
        if status == 401:
            raise ApiError(status, self._unauthorized())
        if status == 503:
            raise Unreachable(f"minova cannot do that now: {(error_message(data) or 'it is busy').rstrip('.')}.")
        if status >= 400:
            raise ApiError(status, error_message(data) or f"{self.url} answered {status} and no reason.")
        if not data.strip():
            return {}
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or (status >= 300 and "versions" not in answer):
            raise CliError(f"{self.url} did not answer as minova does: is it minova-api?")
        return answer

    def _unauthorized(self) -> str:
        if self._cloud is not None:
            return f"{self.url} refused the token of user {self._cloud.user} that {self._cloud.auth_url} gave."
        if self._username is None:
            return f"{self.url} needs a login: give --username or MINOVA_USERNAME, and MINOVA_PASSWORD."
        return f"{self.url} refused user {self._username} with this password."

    def _unreachable(self, error: Exception) -> CliError:
        if isinstance(error, SSLError):
            return Unreachable(
                f"Cannot speak TLS with minova at {self.url}: {innermost_reason(error)}. "
                "--cacert or MINOVA_CACERT names the certificates to trust."
            )
        if isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError):  # may be a subclass of it
            return Unreachable(f"minova at {self.url} did not answer in time: {_sentence(error)}")
        if isinstance(error, ProtocolError):
            return Unreachable(f"The connection to minova at {self.url} was lost: {_sentence(error)}")
        return Unreachable(f"Cannot reach minova at {self.url}: {innermost_reason(error)}; is minova-api running?")

    def _trace(self, line: str) -> None:
        if self._debug:
            print(line, file=sys.stderr)


def part(text: str) -> str:
    """Returns the text quoted as one segment of a path. Raises ApiError for a name that HTTP clients and proxies take for
    another resource's, however it is quoted.
    """
    if text in {".", ".."}:
        raise ApiError(404, f"{text!r} is no name that a request can have in its path.")
    return quote(text, safe="")


def _sentence(error: Exception) -> str:
    return innermost_reason(error).rstrip(".") + "."


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except (ValueError, LocationParseError):
        good = False
    if not good:
        raise UsageError(f"'{url}' is not a URL such as http://127.0.0.1:8774 (--url or MINOVA_URL).")
    if parts.username is not None:
        raise UsageError("The URL holds a user name: give it with --username, and the password with MINOVA_PASSWORD.")
    return url.rstrip("/").removesuffix(COMPUTE)


def _check_readable(cacert: str | None) -> None:
    try:
        if cacert is not None:
            Path(cacert).open("rb").close()
    except OSError as error:
        raise CliError(f"Cannot read the certificates {cacert}: {error.strerror}.") from None


def _basic(username: str, password: str) -> dict[str, str]:
    from base64 import b64encode  # noqa: PLC0415 - only with a password

    return {"Authorization": "Basic " + b64encode(f"{username}:{password}".encode()).decode()}


def _request_id(answer: Any) -> str:
    return str(answer.headers.get("X-OpenStack-Request-ID") or "")
