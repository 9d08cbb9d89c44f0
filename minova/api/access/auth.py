"""Authentication. `noauth` accepts every request, on loopback only; `http_basic` checks an htpasswd file of bcrypt
hashes.

`keystone` is in a module of its own.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path

import bcrypt
import falcon
from oslo_config import cfg

from minova import errors
from minova.api.access.addresses import Network, client_address, parse_networks
from minova.api.access.authenticator import Authenticator, Unauthenticated
from minova.api.access.failure_table import FailureTable
from minova.api.access.origin import is_loopback, require_local_host
from minova.api.access.throttle import PasswordCheck, Throttle
from minova.api.policies.users import Identity, Users, with_implied

# Seconds that a valid password is cached: bcrypt takes 50 to 200 ms of a CPU for each request.
CACHE_SECONDS = 300.0
CACHE_SIZE = 1000
# bcrypt reads no further: it would treat two passwords with the same first 72 bytes as one.
MAX_PASSWORD_BYTES = 72
# The lowest bcrypt cost without a warning in the log: an attacker with a copy of the file guesses cheaper hashes
# quickly.
LOWEST_COST = 10
# The bcrypt cost of a check if the file has no users.
DEFAULT_COST = 12
# `$2y$12$`, 22 characters of salt and 31 of hash, in canonical base64: bcrypt refuses any other text without a
# calculation.
_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
LOG = logging.getLogger(__name__)


def authenticator(conf: cfg.ConfigOpts, failures: FailureTable | None = None) -> Authenticator:
    """Raises InvalidConfiguration, which names the option, if an option is invalid.

    `failures`: a table of failed logins that workers share.
    """
    if conf.api.auth_strategy == "keystone":
        return _keystone(conf)
    if conf.api.auth_strategy == "noauth":
        _require_loopback("[api]", "noauth", "[api] osapi_compute_listen", conf.api.osapi_compute_listen)
        return OnlyLocal(noauth, conf.api.osapi_compute_listen)
    return _http_basic(conf, failures)


def placement_authenticator(conf: cfg.ConfigOpts) -> Authenticator:
    """Returns the authenticator of minova-placement-api.

    Raises InvalidConfiguration, which names the option, if an option is invalid.
    """
    options = conf.placement
    strategy = options.auth_strategy or conf.api.auth_strategy
    if strategy == "keystone":
        return _keystone(conf)
    if strategy == "http_basic":
        return _http_basic(conf)
    group = "[placement]" if options.auth_strategy else "[api]"
    _require_loopback(group, strategy, "[placement] listen", options.listen)
    return OnlyLocal(noauth2 if strategy == "noauth2" else noauth, options.listen)


def foreign_server_authenticator(conf: cfg.ConfigOpts) -> Authenticator:
    """Returns the authenticator of minova-placement-api in a WSGI server that is not minova's. The address on which
    that server listens is not known here.

    Raises InvalidConfiguration for noauth and noauth2, unless [placement] noauth_in_any_server allows them.
    """
    strategy = conf.placement.auth_strategy or conf.api.auth_strategy
    if strategy.startswith("noauth") and not conf.placement.noauth_in_any_server:
        raise errors.InvalidConfiguration(
            f"auth_strategy = {strategy} accepts every client, and this WSGI server may listen on any address. Set [placement] "
            "auth_strategy = http_basic or keystone, or run minova-placement-api; [placement] noauth_in_any_server = true, for tests, allows it."
        )
    return placement_authenticator(conf)


def _keystone(conf: cfg.ConfigOpts) -> Authenticator:
    from minova.api.access.keystone import Keystone  # noqa: PLC0415 - takes most of a second, for this strategy alone

    return Keystone(conf)


def _http_basic(conf: cfg.ConfigOpts, failures: FailureTable | None = None) -> Authenticator:
    trusted = parse_networks("[api] trusted_proxies", conf.api.trusted_proxies)
    users = Users(conf.api.admin_users, conf.api.user_roles)
    file = Path(conf.api.http_basic_auth_user_file)
    return HttpBasic(file, users, trusted_proxies=trusted, failures=failures)


def _require_loopback(group: str, strategy: str, option: str, address: str) -> None:
    if not is_loopback(address):
        raise errors.InvalidConfiguration(
            f"{group} auth_strategy = {strategy} makes every client an administrator, so that {option} must be a loopback "
            f"address, and is {address}. Set auth_strategy = http_basic or keystone, or listen on 127.0.0.1."
        )


class OnlyLocal:
    """Refuses requests with a foreign host name, which pages in a browser on this host can send, before any other
    check.
    """

    def __init__(self, identify: Authenticator, listener: str) -> None:
        self._identify = identify
        self._listener = listener

    def __call__(self, request: falcon.Request) -> Identity:
        require_local_host(request, self._listener)
        return self._identify(request)


def noauth(request: falcon.Request) -> Identity:
    """Accepts every request as an administrator. X-Auth-Token may be `user:project`, as in Nova's noauth2."""
    user, _, project = (request.get_header("X-Auth-Token") or "").partition(":")
    return Identity(user_id=user or "admin", project_id=project or None, roles=with_implied(["admin"]))


def noauth2(request: falcon.Request) -> Identity:
    """X-Auth-Token is `user` or `user:project`; the user `admin` is the administrator.

    Raises Unauthenticated if there is no token.
    """
    token = request.get_header("X-Auth-Token")
    if not token:
        raise Unauthenticated("There is no X-Auth-Token.")
    user, _, project = token.partition(":")
    return Identity(
        user_id=user, project_id=project or user, roles=with_implied(["admin" if user == "admin" else "member"])
    )


class HttpBasic:
    """Users of an htpasswd file. Reloads the file when it changes.

    A refusal takes the same time for all users and for names that are not in the file. Failures are logged and
    throttled.
    """

    def __init__(
        self,
        path: Path,
        users: Users,
        clock: Callable[[], float] = time.monotonic,
        trusted_proxies: Sequence[Network] = (),
        failures: FailureTable | None = None,
    ) -> None:
        self._path = path
        self._trusted_proxies = trusted_proxies
        self._throttle = Throttle(clock, failures)
        # Checks in progress. Requests with the same credentials share one check: a client that starts with many
        # requests at once makes one attempt.
        self._checks: dict[bytes, Future[bool]] = {}
        self._users = users
        self._clock = clock
        self._secret = os.urandom(32)
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._hashes: dict[str, bytes] = {}
        self._cost = DEFAULT_COST
        self._cache: dict[bytes, float] = {}
        self._load()

    def __call__(self, request: falcon.Request) -> Identity:
        user, password = credentials(request.get_header("Authorization"))
        self._load()
        forwarded_for = request.get_header("X-Forwarded-For") or ""
        address = client_address(request.remote_addr, forwarded_for, self._trusted_proxies)
        if not self._is_valid(user, password, address):
            raise Unauthenticated("The user name or the password is wrong.")
        return self._users.identity(user)

    def _is_valid(self, user: str, password: bytes, address: str) -> bool:
        """Raises TooManyFailures while this user must wait at this address."""
        self._throttle.check(user, address)
        with self._lock:
            hashed, cost = self._hashes.get(user), self._cost
            # The hash is part of the key: a changed password invalidates its entry. The cache holds keyed digests,
            # never passwords.
            message = b"\0".join((hashed or b"", user.encode(), password))
            key = hmac.new(self._secret, message, hashlib.sha256).digest()
            if self._cache.get(key, 0.0) > self._clock():
                return True
            check = self._checks.get(flight := key + address.encode())
            if check is None:
                own = self._checks[flight] = Future()
        if check is not None:
            return check.result()
        try:
            own.set_result(self._checked(user, password, address, hashed, cost))
        except BaseException as error:
            own.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._checks[flight]
                if not own.exception() and own.result():
                    self._remember(key)
        return own.result()

    def _checked(self, user: str, password: bytes, address: str, hashed: bytes | None, cost: int) -> bool:
        attempt = self._throttle.begin(user, address)
        if _matches(password, hashed, cost):
            self._throttle.succeeded(attempt)
            return True
        _log_failure(user, address, attempt)
        return False

    def _remember(self, key: bytes) -> None:
        if len(self._cache) >= CACHE_SIZE:
            self._cache.clear()
        self._cache[key] = self._clock() + CACHE_SECONDS

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
            self._cost = max(map(_cost_of, hashes.values()), default=DEFAULT_COST)
            self._cache.clear()
        _warn_of_low_costs(self._path, hashes.values())


def _warn_of_low_costs(path: Path, hashes: Iterable[bytes]) -> None:
    low = sum(_cost_of(hashed) < LOWEST_COST for hashed in hashes)
    if low:
        LOG.warning(
            "%s: the hashes of %d users have a bcrypt cost below %d; `htpasswd -B -C %d` makes better ones",
            path,
            low,
            LOWEST_COST,
            DEFAULT_COST,
        )


def _matches(password: bytes, hashed: bytes | None, cost: int) -> bool:
    """Whether the password is correct. `hashed` is None for an unknown user.

    A refusal takes the time of one hash of `cost`, the highest cost of all users.
    """
    if hashed is None:
        bcrypt.hashpw(password, bcrypt.gensalt(cost))
        return False
    if bcrypt.checkpw(password, hashed):
        return True
    # A hash of cost n takes 2**n rounds. Further hashes of the costs n, n+1, ... cost-1 add up to 2**cost rounds.
    for less in range(_cost_of(hashed), cost):
        bcrypt.hashpw(password, bcrypt.gensalt(less))
    return False


def _cost_of(hashed: bytes) -> int:
    return int(hashed[4:6])


def _log_failure(user: str, address: str, attempt: PasswordCheck) -> None:
    """Logs a failed login. The address comes first, so that no user name can imitate it."""
    delay = f"; the next attempt must wait {attempt.delay:.0f} s" if attempt.delay else ""
    LOG.warning(
        'Login failed from %s: user "%s", %d in a row%s', printable(address), printable(user), attempt.count, delay
    )


def printable(text: str) -> str:
    """Returns at most 64 characters for a line of the log. Control characters, quotes and non-ASCII characters are
    escaped.
    """
    plain = (char if " " <= char <= "~" and char not in '"\\' else f"\\u{ord(char):04x}" for char in text[:64])
    return "".join(plain) + ("..." if len(text) > 64 else "")


def credentials(header: str | None) -> tuple[str, bytes]:
    """Returns the user and the password of an Authorization header."""
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
    if len(password) > MAX_PASSWORD_BYTES or b"\0" in password:
        raise Unauthenticated(
            f"Passwords have at most {MAX_PASSWORD_BYTES} bytes, and no NUL: bcrypt reads no further."
        )
    return name, password


def parse_htpasswd(text: str) -> dict[str, bytes]:
    """Parses lines `user:hash` and skips empty lines and comments.

    Raises InvalidConfiguration if a hash is not bcrypt's.
    """
    hashes = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        user, _, hashed = line.partition(":")
        if not user or not _BCRYPT.fullmatch(hashed):
            raise errors.InvalidConfiguration(
                f"[api] http_basic_auth_user_file: line {number} is not `user:hash` with a bcrypt hash; "
                f"`htpasswd -B -C {DEFAULT_COST} FILE USER` writes such lines."
            )
        hashes[user] = hashed.encode()
    return hashes
