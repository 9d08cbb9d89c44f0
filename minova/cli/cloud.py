"""A cloud of clouds.yaml or of OS_* variables: its login, its token, and the addresses of minova's APIs in its catalog.
openstacksdk does all of it.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import openstack.config
from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1.plugin import AUTH_INTERFACE
from openstack.exceptions import ConfigException

from minova.cli.error_text import innermost_reason
from minova.cli.errors import ApiError, CliError, Unreachable, UsageError

# (prefix of a path in the client, type of the service, number of characters to drop before the path is appended to the
# endpoint)
_SERVICES = (("/network/", "network", len("/network")), ("/v2/", "image", 0), ("/", "compute", 0))
_VERSION = re.compile(r"/v2(\.\d+)?(/[^/]+)?$")


class CloudSession:
    """If `name` is None, the cloud is that of OS_CLOUD, or is described by the other variables alone.

    Raises UsageError if the cloud does not exist or lacks a setting, ApiError if Keystone refuses the login,
    Unreachable if Keystone does not answer.
    """

    def __init__(self, name: str | None) -> None:
        self._endpoints: dict[str, str] = {}
        with self._errors("clouds.yaml"):
            config = openstack.config.OpenStackConfig()
            cloud_name = name or os.environ.get("OS_CLOUD")
            # openstacksdk adds names of its own for clouds that are in no file.
            cloud_names = sorted(set(config.get_cloud_names()) - {"defaults", "envvars"})
            if cloud_name and cloud_name not in cloud_names:
                raise UsageError(
                    f"There is no cloud {cloud_name} in clouds.yaml; it has {', '.join(cloud_names) or 'none'}."
                )
            self._region: Any = config.get_one(cloud=cloud_name)
            self._session = self._region.get_session()
        verify, cert = self._region.get_requests_verify_args()
        self.verify = verify is not False
        self.cacert = verify if isinstance(verify, str) else None
        # The user's client certificate: one file, or separate files for certificate and key.
        self.cert_file: str | None
        self.key_file: str | None
        self.cert_file, self.key_file = cert if isinstance(cert, tuple) else (cert, None)

    @property
    def user(self) -> str:
        auth = self._region.config.get("auth", {})
        return str(
            auth.get("username") or auth.get("application_credential_id") or auth.get("user_id") or "of the token"
        )

    @property
    def auth_url(self) -> str:
        auth = self._region.config.get("auth", {})
        return str(auth.get("auth_url") or auth.get("endpoint") or "Keystone")

    def headers(self) -> dict[str, str]:
        """Returns the authentication headers, with a new token if the old one is about to expire."""
        with self._errors(self.auth_url):
            return dict(self._session.get_auth_headers() or {})

    def url(self, path: str) -> str:
        """Returns the URL of a path of `minova.cli.client`."""
        for prefix, kind, rest in _SERVICES:
            if path.startswith(prefix):
                return self._endpoint(kind) + path[rest:]
        raise ValueError(path)

    def owner(self, kind: str, name_or_id: str, domain: str | None) -> str:
        """Returns the ID of a `project` or `user`. If Keystone forbids the query, `name_or_id` counts as the ID.

        Raises CliError if there is none, or if several have the name.
        """
        with self._errors(self.auth_url):
            try:
                within = {} if domain is None else {"domain_id": self._id_of("domain", domain)}
                return self._id_of(kind, name_or_id, **within)
            except keystone_errors.Forbidden:
                return name_or_id

    def own_project(self) -> str:
        """Returns the ID of the login's project. Raises UsageError if the login has no project."""
        with self._errors(self.auth_url):
            project_id = self._session.get_project_id()
        if not project_id:
            raise UsageError("The login has no project: give --project.")
        return str(project_id)

    def users_of(self, project_id: str) -> list[str]:
        """Returns the IDs of the users that have a role on the project, without those that have it only by a group."""
        with self._errors(self.auth_url):
            assignments = self._keystone("/role_assignments", **{"scope.project.id": project_id})["role_assignments"]
        return sorted({assignment["user"]["id"] for assignment in assignments if "user" in assignment})

    def _id_of(self, kind: str, name_or_id: str, **query: str) -> str:
        """Returns the ID. A match by ID takes precedence over a match by name."""
        try:
            return str(self._keystone(f"/{kind}s/{quote(name_or_id, safe='')}")[kind]["id"])
        except keystone_errors.NotFound:
            matches = self._keystone(f"/{kind}s", name=name_or_id, **query)[f"{kind}s"]
        if not matches:
            raise CliError(f"Keystone at {self.auth_url} has no {kind} with the name or ID '{name_or_id}'.")
        if len(matches) > 1:
            raise CliError(f"Several domains have a {kind} '{name_or_id}'. Say which with --{kind}-domain, or by ID.")
        return str(matches[0]["id"])

    def _keystone(self, path: str, **query: str) -> Any:
        """Returns the response of the identity API, version 3."""
        where = {"service_type": "identity", "interface": AUTH_INTERFACE, "version": (3, 0)}
        return self._session.get(path, params=query, endpoint_filter=where).json()

    def _endpoint(self, kind: str) -> str:
        """Returns the endpoint without the version, and without the project that may follow it."""
        if kind not in self._endpoints:
            with self._errors(self.auth_url):
                endpoint = self._region.get_session_endpoint(kind)
            if not endpoint:
                region = self._region.get_region_name(kind)
                where = f" of region {region}" if region else ""
                raise CliError(
                    f"The catalog of {self.auth_url} has no {kind} endpoint{where}: ask its administrator for `openstack endpoint create`, "
                    f"or set {kind}_endpoint_override in clouds.yaml."
                )
            self._endpoints[kind] = _VERSION.sub("", endpoint.rstrip("/"))
        return self._endpoints[kind]

    @contextmanager
    def _errors(self, where: str) -> Iterator[None]:
        """Turns an error of a library into a readable line."""
        try:
            yield
        except (ConfigException, keystone_errors.AuthPluginException) as error:
            raise UsageError(f"The cloud of clouds.yaml or OS_* cannot be used: {error}") from error
        except (keystone_errors.Unauthorized, keystone_errors.Forbidden) as error:
            raise ApiError(error.http_status, f"{where} refused user {self.user}: {error.message}") from error
        except keystone_errors.SSLError as error:
            raise Unreachable(
                f"Cannot speak TLS with {where}: {innermost_reason(error.__context__ or error)}. `cacert` in clouds.yaml or OS_CACERT names the certificates to trust."
            ) from error
        except keystone_errors.ClientException as error:
            raise Unreachable(f"Cannot use {where}: {innermost_reason(error.__context__ or error)}.") from error
