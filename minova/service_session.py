"""Keystoneauth sessions for the user that a section of the configuration names."""

from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from oslo_config import cfg

from minova import errors


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
