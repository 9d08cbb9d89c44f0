"""Keystoneauth sessions for the user that a section of the configuration names, and single requests in them."""

from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from oslo_config import cfg

from minova import errors

# Statuses after which a retry may succeed, with another server or with the same one.
RETRIABLE = frozenset((500, 502, 503, 504))


def session_of(conf: cfg.ConfigOpts, section: str, needed_for: str) -> Session:
    """Raises InvalidConfiguration if the section names no user, or an invalid one."""
    try:
        loading.register_auth_conf_options(conf, section)
        loading.register_session_conf_options(conf, section)
        auth = loading.load_auth_from_conf_options(conf, section)
        session: Session = loading.load_session_from_conf_options(conf, section, auth=auth)
    except (cfg.Error, ValueError, keystone_errors.ClientException) as error:
        raise errors.InvalidConfiguration(f"[{section}]: {error}") from None
    if auth is None:
        raise errors.InvalidConfiguration(f"[{section}]: auth_type and a user are needed with {needed_for}.")
    return session


def endpoint_of(session: Session, options: cfg.ConfigOpts.GroupAttr) -> Adapter:
    """Returns an adapter that finds the service of a configuration section in the catalog."""
    return Adapter(
        session,
        service_type=options.service_type,
        service_name=options.service_name,
        region_name=options.region_name,
        interface=options.valid_interfaces,
    )


def send(
    session: Session, method: str, url: str, token: str | None, headers: Mapping[str, str], timeout: float, **more: Any
) -> Any:
    """Sends one request, as the user with the token or as the user of the session, and returns the answer whatever its status.

    The callers repeat it: keystoneauth's own retries know neither the next of several servers nor a deadline, and do not
    repeat a request whose answer took too long. Raises ClientException if there is no answer.
    """
    return session.request(
        url,
        method,
        authenticated=token is None,
        headers={**headers, **({} if token is None else {"X-Auth-Token": token})},
        connect_retries=0,
        raise_exc=False,
        redirect=False,
        timeout=timeout,
        log=False,
        **more,
    )
