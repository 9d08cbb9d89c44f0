"""Identifies callers by their Keystone tokens: OpenStack's own middleware validates the tokens.

    request -> auth_token (X-Auth-Token, X-Service-Token) -> Keystone, or the cache -> Identity

The middleware wraps an application here that does nothing but accept. So versions stay public, and errors have the
format of their API.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import falcon
from cachetools import TTLCache
from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1 import loading
from keystonemiddleware import auth_token
from oslo_config import cfg

from minova import errors
from minova.api.access.authenticator import Unauthenticated
from minova.api.access.wsgi_keys import CLIENT_PATH, SERVICE_TYPE
from minova.api.policies.users import Identity, Scope
from minova.outages import Outage

LOG = logging.getLogger(__name__)
GROUP = "keystone_authtoken"
# The middleware's own defaults wait for Keystone without a time-out, and try four times.
DEFAULTS = {"http_connect_timeout": 5, "http_request_max_retries": 1}
# In tokens. A token with its catalog takes a few KiB.
CACHE_SIZE = 2000
# The key of the WSGI environment that holds the cache.
CACHE = "minova.tokens"
AWAY = "The Keystone service is temporarily unavailable."
SERVICE_TYPES = ("compute", "image", "network", "placement")


class TokenCache:
    """Keystone's answers about tokens, kept for [keystone_authtoken] token_cache_time. The middleware's own in-memory
    cache never shrinks. `answered` is called with each new answer.
    """

    def __init__(self, seconds: int, answered: Callable[[], None]) -> None:
        self._answered = answered
        self._lock = threading.Lock()
        self._tokens: TTLCache[str, bytes] | None = TTLCache(CACHE_SIZE, seconds) if seconds > 0 else None

    def get(self, key: str) -> bytes | None:
        with self._lock:
            return None if self._tokens is None else self._tokens.get(key)

    def set(self, key: str, value: bytes, time: int = 0) -> None:
        """Ignores `time`: entries live as long as this cache was configured for."""
        self._answered()
        with self._lock:
            if self._tokens is not None:
                self._tokens[key] = value


class Keystone:
    """Raises InvalidConfiguration if the options of [keystone_authtoken] cannot be used, or if Keystone refuses the
    service user.

    If Keystone is away at the start, each request tries again.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._outage = Outage("Keystone", LOG, gauge="keystone")
        try:
            _register(conf)
            _log_in(conf, self._outage)
            own_cache = TokenCache(conf[GROUP].token_cache_time, self._outage.answered)
            self._tokens = None if conf[GROUP].memcached_servers else own_cache
            own = {} if self._tokens is None else {"cache": CACHE}
            self._checks = {
                kind: auth_token.AuthProtocol(_accept, {"oslo_config_config": conf, "service_type": kind, **own})
                for kind in SERVICE_TYPES
            }
        except (cfg.Error, ValueError, auth_token.ConfigurationError, keystone_errors.AuthPluginException) as error:
            raise errors.InvalidConfiguration(f"[{GROUP}]: {error}") from None

    def __call__(self, request: falcon.Request) -> Identity:
        """Raises Unauthenticated if the token is not valid, ServiceUnavailable while Keystone does not answer."""
        # A copy, because the middleware writes into the environment; without the body, which it does not need.
        env = {key: value for key, value in request.env.items() if not key.startswith("wsgi.")}
        env |= {key: request.env[key] for key in ("wsgi.url_scheme", "wsgi.version")}
        env[CACHE] = self._tokens
        # The access rules of application credentials apply to the paths that clients send.
        if CLIENT_PATH in env:
            env |= {"SCRIPT_NAME": "", "PATH_INFO": env[CLIENT_PATH]}
        status = _Status()
        try:
            self._checks[request.env[SERVICE_TYPE]](env, status)
        except keystone_errors.ClientException as error:
            self._outage.failed(error)
            raise errors.ServiceUnavailable(AWAY) from None
        if status.is_away:
            self._outage.failed("it cannot check tokens; the lines of keystonemiddleware have the reason")
        status.require_accepted()
        if self._tokens is None:
            self._outage.answered()
        return identity_of(env)


class _Status:
    """`start_response` of WSGI: records the answer of the middleware, or of `_accept` behind it."""

    def __init__(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}

    def __call__(self, status: str, headers: list[tuple[str, str]], _error: Any = None) -> Callable[[bytes], None]:
        self._status = int(status[:3])
        self._headers = {name.lower(): value for name, value in headers}
        return lambda _: None

    @property
    def is_away(self) -> bool:
        return self._status not in (200, 401)

    def require_accepted(self) -> None:
        if self._status == 401:
            challenge = self._headers.get("www-authenticate", "Keystone")
            raise Unauthenticated("The request you have made requires authentication.", challenge)
        if self.is_away:
            raise errors.ServiceUnavailable(AWAY)


def _accept(env: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK" if env.get("HTTP_X_IDENTITY_STATUS") == "Confirmed" else "401 Unauthorized", [])
    return [b""]


def identity_of(env: Mapping[str, Any]) -> Identity:
    """Reads the identity from the objects that the middleware has left in the environment.

    It does not read the headers that the middleware sets: there, a role's name may have commas, and the service's scope
    replaces the user's. The project of a token without a project is "": no path can give it one.
    """
    token = env["keystone.token_info"]["token"]
    service = None
    if env.get("HTTP_X_SERVICE_IDENTITY_STATUS") == "Confirmed":
        service = env["keystone.token_auth"].service
    return Identity(
        user_id=token["user"]["id"],
        project_id=_id(token.get("project")),
        roles=tuple(role["name"] for role in token.get("roles") or ()),
        scope=Scope(
            user_domain_id=_id(token["user"].get("domain")),
            project_domain_id=_id((token.get("project") or {}).get("domain")),
            domain_id=_id(token.get("domain")),
            system_scope="all" if (token.get("system") or {}).get("all") else "",
            service_user_id="" if service is None else service.user_id,
            service_project_id="" if service is None else service.project_id or "",
            service_roles=() if service is None else tuple(service.role_names),
        ),
    )


def _id(thing: Mapping[str, Any] | None) -> str:
    return str(thing["id"]) if thing else ""


def _register(conf: cfg.ConfigOpts) -> None:
    for group, options in auth_token.list_opts():
        conf.register_opts(options, group=group)
    for name, value in DEFAULTS.items():
        conf.set_default(name, value, group=GROUP)


def _log_in(conf: cfg.ConfigOpts, outage: Outage) -> None:
    """Gets a token for the service user, so that a wrong password is found at the start and not by the
    first request.
    """
    options = conf[GROUP]
    plugin = loading.load_auth_from_conf_options(conf, GROUP)
    if plugin is None:
        raise errors.InvalidConfiguration(
            f"[{GROUP}] auth_type is not set: auth_strategy = keystone needs a user of Keystone that may check tokens. Set "
            "auth_type = password, auth_url, username, password, user_domain_name, project_name and project_domain_name."
        )
    if not options.www_authenticate_uri:
        # Otherwise the middleware would ask Keystone for it, even while Keystone is away.
        conf.set_default("www_authenticate_uri", getattr(plugin, "auth_url", None), group=GROUP)
    session = loading.session.Session().load_from_options(
        cert=options.certfile,
        key=options.keyfile,
        cacert=options.cafile,
        insecure=options.insecure,
        timeout=options.http_connect_timeout,
    )
    try:
        plugin.get_token(session)
    except (keystone_errors.Unauthorized, keystone_errors.Forbidden, keystone_errors.NotFound) as error:
        raise errors.InvalidConfiguration(
            f"[{GROUP}]: Keystone at {getattr(plugin, 'auth_url', None)} refuses the service user: {error}"
        ) from None
    except keystone_errors.ClientException as error:
        outage.failed(f"{error}. Requests are refused with 503 until it does")
