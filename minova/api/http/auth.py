"""Authentication. `noauth` accepts every request, on loopback only; `http_basic` checks an htpasswd file of bcrypt hashes."""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import bcrypt
import falcon
import msgspec
from oslo_config import cfg

from minova import errors

CHALLENGE = 'Basic realm="minova", charset="UTF-8"'
# Seconds that a valid password is cached: bcrypt takes 50 to 200 ms of a CPU for each request.
CACHE_SECONDS = 300.0
CACHE_SIZE = 1000
# Checked for an unknown user, so that the time of the check does not show whether the user exists.
_DUMMY_HASH = bcrypt.hashpw(os.urandom(16).hex().encode(), bcrypt.gensalt(10))


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """`project_id` None: the path of the request may name one."""

    user_id: str
    project_id: str | None
    is_admin: bool


class Unauthenticated(errors.Unauthorized):
    """Answered with a challenge."""


class Authenticator(Protocol):
    def __call__(self, request: falcon.Request) -> Identity: ...


def authenticator(conf: cfg.ConfigOpts) -> Authenticator:
    """Raises InvalidConfiguration with the option that does not fit."""
    if conf.api.auth_strategy == "noauth":
        _require_loopback("[api]", "noauth", "[api] osapi_compute_listen", conf.api.osapi_compute_listen)
        return noauth
    return _http_basic(conf)


def placement_authenticator(conf: cfg.ConfigOpts) -> Authenticator:
    """The authenticator of minova-placement-api. Raises InvalidConfiguration with the option that does not fit."""
    options = conf.placement
    strategy = options.auth_strategy or conf.api.auth_strategy
    if strategy == "http_basic":
        return _http_basic(conf)
    group = "[placement]" if options.auth_strategy else "[api]"
    _require_loopback(group, strategy, "[placement] listen", options.listen)
    return noauth2 if strategy == "noauth2" else noauth


def _http_basic(conf: cfg.ConfigOpts) -> Authenticator:
    return HttpBasic(Path(conf.api.http_basic_auth_user_file), frozenset(conf.api.admin_users))


def _require_loopback(group: str, strategy: str, option: str, address: str) -> None:
    if not is_loopback(address):
        raise errors.InvalidConfiguration(
            f"{group} auth_strategy = {strategy} lets everybody in as administrator, so that {option} must be a loopback "
            f"address, and is {address}. Set auth_strategy = http_basic, or listen on 127.0.0.1."
        )


def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def noauth(request: falcon.Request) -> Identity:
    """X-Auth-Token may be `user:project`, as for Nova's noauth2."""
    user, _, project = (request.get_header("X-Auth-Token") or "").partition(":")
    return Identity(user_id=user or "admin", project_id=project or None, is_admin=True)


def noauth2(request: falcon.Request) -> Identity:
    """X-Auth-Token is `user` or `user:project`; the user `admin` is the administrator. Raises Unauthenticated without a token."""
    token = request.get_header("X-Auth-Token")
    if not token:
        raise Unauthenticated("There is no X-Auth-Token.")
    user, _, project = token.partition(":")
    return Identity(user_id=user, project_id=project or user, is_admin=user == "admin")


class HttpBasic:
    """Users of an htpasswd file, each the only member of a project of the same name. Reloads the file when it changes."""

    def __init__(self, path: Path, admins: frozenset[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._admins = admins
        self._clock = clock
        self._secret = os.urandom(32)
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._hashes: dict[str, bytes] = {}
        self._cache: dict[bytes, float] = {}
        self._load()

    def __call__(self, request: falcon.Request) -> Identity:
        user, password = credentials(request.get_header("Authorization"))
        self._load()
        if not self._is_valid(user, password):
            raise Unauthenticated("The user name or the password is wrong.")
        return Identity(user_id=user, project_id=user, is_admin=user in self._admins)

    def _is_valid(self, user: str, password: bytes) -> bool:
        with self._lock:
            hashed = self._hashes.get(user)
        # The hash is part of the key: a changed password invalidates its entry. The cache holds keyed digests, never passwords.
        message = b"\0".join((hashed or b"", user.encode(), password))
        key = hmac.new(self._secret, message, hashlib.sha256).digest()
        with self._lock:
            if self._cache.get(key, 0.0) > self._clock():
                return True
        valid = _matches(password, hashed or _DUMMY_HASH) and hashed is not None
        if valid:
            with self._lock:
                if len(self._cache) >= CACHE_SIZE:
                    self._cache.clear()
                self._cache[key] = self._clock() + CACHE_SECONDS
        return valid

    def _load(self) -> None:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._stamp:
                return
            hashes = parse_htpasswd(self._path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise errors.InvalidConfiguration(
                f"[api] http_basic_auth_user_file = {self._path} cannot be read: {error}"
            ) from None
        with self._lock:
            self._stamp, self._hashes = stamp, hashes
            self._cache.clear()


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        # bcrypt uses 72 bytes, and newer versions raise ValueError for more.
        return bcrypt.checkpw(password[:72], hashed)
    except ValueError:
        return False


def credentials(header: str | None) -> tuple[str, bytes]:
    """User and password of an Authorization header."""
    kind, _, encoded = (header or "").partition(" ")
    if kind.lower() != "basic":
        raise Unauthenticated("This service asks for a user name and a password (HTTP Basic).")
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        name = user.decode()
    except (binascii.Error, UnicodeDecodeError):
        colon = b""
    if not colon:
        raise Unauthenticated("The Authorization header is malformed.")
    return name, password


def parse_htpasswd(text: str) -> dict[str, bytes]:
    """Lines `user:hash`; skips empty lines and comments. Raises InvalidConfiguration for a hash other than bcrypt's."""
    hashes = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        user, _, hashed = line.partition(":")
        if not user or not hashed.startswith(("$2a$", "$2b$", "$2y$")):
            raise errors.InvalidConfiguration(
                f"[api] http_basic_auth_user_file: line {number} is not `user:hash` with a bcrypt hash; "
                f"`htpasswd -B FILE USER` writes such lines."
            )
        hashes[user] = hashed.encode()
    return hashes
