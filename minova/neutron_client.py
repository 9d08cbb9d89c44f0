"""Requests to a Neutron that runs beside minova, either as the user of `[neutron]` or with the token of a user."""

import copy
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1.session import Session
from oslo_config import cfg

from minova import errors
from minova.outages import Outage
from minova.service_session import RETRIABLE, endpoint_of, send, session_of

LOG = logging.getLogger(__name__)
GROUP = "neutron"
TIMEOUT = 30.0  # seconds, if [neutron] timeout is not set
PAUSE = 0.5  # seconds before a request is sent again
# IDs that may stand in a path. They are checked because users send the IDs of ports.
_ID = re.compile("[0-9a-fA-F-]{1,36}")
_AWAY = "The network service does not answer. Please try again in a moment."
_BY_STATUS: dict[int, type[errors.MinovaError]] = {
    400: errors.BadRequest,
    403: errors.BadRequest,
    404: errors.NotFound,
    409: errors.BadRequest,
    412: errors.RevisionNumberConstraintFailed,
}
# Neutron's error types, and minova's errors for them.
_BY_TYPE: dict[str, type[errors.MinovaError]] = {
    "PortNotFound": errors.PortNotFound,
    "PortBindingError": errors.PortBindingFailed,
    "NetworkNotFound": errors.NetworkNotFound,
    "IpAddressGenerationFailure": errors.IpAddressGenerationFailure,
    "IpAddressAlreadyAllocated": errors.IpAddressAlreadyAllocated,
    "InvalidIpForNetwork": errors.InvalidIpForNetwork,
    "MacAddressInUse": errors.MacAddressInUse,
}
Document = dict[str, Any]


class NeutronClient:
    """Safe for threads. Raises InvalidConfiguration if `[neutron]` names no user.

    All methods raise ServiceUnavailable if Neutron does not answer, and an error of the matching kind if it refuses the
    request.

    `token`: the token of the user on whose behalf the request is sent; None: the user of `[neutron]`.
    `most`: the longest time in seconds for one request, also for a token; None: `[neutron] timeout`.
    `outage`: whether Neutron answers now, as seen by all requests of this client and of its copies made by `within`.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        sleep: Callable[[float], None] = time.sleep,
        *,
        most: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        options = conf[GROUP]
        session = session_of(conf, GROUP, "backend = neutron")
        self._session: Session = session
        self._tries = options.http_retries + 1
        self._timeout = float(options.timeout or TIMEOUT) if most is None else min(float(options.timeout or most), most)
        session.timeout = self._timeout  # timeout of requests for tokens and for the catalog
        self._sleep = sleep
        self._clock = clock
        self._until: float | None = None
        self.outage = Outage("Neutron", LOG, clock, gauge="neutron")
        self._override = options.endpoint_override
        self._catalog = endpoint_of(session, options)

    def within(self, seconds: float) -> Self:
        """Returns a copy of this client whose requests raise ServiceUnavailable once `seconds` have passed."""
        bounded = copy.copy(self)
        bounded._until = self._clock() + seconds
        return bounded

    def networks(self, token: str | None = None, **filters: Any) -> list[Document]:
        return self._list("networks", token, filters)

    def network(self, network_id: str, token: str | None = None) -> Document | None:
        """Returns None if there is no such network or the user may not see it."""
        return next(iter(self.networks(token, id=network_id)), None)

    def subnets(self, network_id: str, token: str | None = None) -> list[Document]:
        return self._list("subnets", token, {"network_id": network_id})

    def ports(self, token: str | None = None, **filters: Any) -> list[Document]:
        return self._list("ports", token, filters)

    def port(self, port_id: str, token: str | None = None) -> Document | None:
        """Returns None if there is no such port or the user may not see it."""
        if not _ID.fullmatch(port_id):
            return None
        try:
            port: Document = self._ask("GET", f"/v2.0/ports/{port_id}", token)["port"]
        except errors.PortNotFound:
            return None
        return port

    def security_groups(self, token: str | None = None, **filters: Any) -> list[Document]:
        return self._list("security-groups", token, filters)

    def create_port(self, port: Document) -> Document:
        """Sent only once, because Neutron makes another port for each request."""
        created_port: Document = self._ask("POST", "/v2.0/ports", None, tries=1, json={"port": port})["port"]
        return created_port

    def update_port(
        self,
        port_id: str,
        port: Document,
        tries: int | None = None,
        token: str | None = None,
        revision: int | None = None,
    ) -> Document:
        """Raises PortNotFound if there is no such port, RevisionNumberConstraintFailed if it has changed since
        `revision` was read.
        """
        headers = {} if revision is None else {"If-Match": f"revision_number={revision}"}
        path = f"/v2.0/ports/{port_id}"
        updated_port: Document = self._ask("PUT", path, token, tries=tries, headers=headers, json={"port": port})[
            "port"
        ]
        return updated_port

    # -- bindings: of the hosts between which a guest moves. One of them is active --------------------------------------

    def bindings(self, port_id: str) -> list[Document]:
        """Raises NotFound if there is no such port, or if Neutron has no extension `binding-extended`."""
        bindings: list[Document] = self._ask("GET", f"/v2.0/ports/{port_id}/bindings", None)["bindings"]
        return bindings

    def create_binding(self, port_id: str, host: str) -> Document:
        """Raises as `bindings`, PortBindingFailed if no agent of this host takes the port, BadRequest if there is one already."""
        path = f"/v2.0/ports/{port_id}/bindings"
        binding: Document = self._ask("POST", path, None, json={"binding": {"host": host}})["binding"]
        return binding

    def activate_binding(self, port_id: str, host: str) -> None:
        """The one that was active becomes inactive. Raises NotFound if there is none, BadRequest if it is active already."""
        self._ask("PUT", f"/v2.0/ports/{port_id}/bindings/{host}/activate", None)

    def delete_binding(self, port_id: str, host: str) -> None:
        """One that is already gone is no error."""
        try:
            self._ask("DELETE", f"/v2.0/ports/{port_id}/bindings/{host}", None)
        except errors.NotFound:
            LOG.debug("The binding of port %s to %s has gone already", port_id, host)

    def delete_port(self, port_id: str) -> None:
        """A port that is already gone is no error."""
        try:
            self._ask("DELETE", f"/v2.0/ports/{port_id}", None)
        except errors.NotFound:
            LOG.debug("Port %s has gone already", port_id)

    def _list(self, kind: str, token: str | None, filters: dict[str, Any]) -> list[Document]:
        documents: list[Document] = self._ask("GET", f"/v2.0/{kind}", token, params=filters)[kind.replace("-", "_")]
        return documents

    def _ask(
        self,
        method: str,
        path: str,
        token: str | None,
        tries: int | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Any:
        sent = {"Accept": "application/json", **(headers or {})}
        for number in range(1, (tries or self._tries) + 1):
            if number > 1:
                self._sleep(PAUSE)
            timeout = self._timeout if self._until is None else min(self._timeout, self._until - self._clock())
            if timeout <= 0:
                break
            try:
                answer = send(self._session, method, f"{self._server()}{path}", token, sent, timeout, **more)
            except keystone_errors.ClientException as error:
                self.outage.failed(f"{method} {path}: {error}")
                continue
            self.outage.answered()
            if answer.status_code < 300:
                try:
                    return answer.json() if answer.content else None
                except ValueError as error:
                    LOG.warning("Neutron, %s %s: no JSON: %s", method, path, error)
                    continue
            self._refuse(answer, method, path)
        raise errors.ServiceUnavailable(_AWAY)

    def _server(self) -> str:
        url = self._override or self._catalog.get_endpoint()
        if not url:
            raise keystone_errors.EndpointNotFound("no network service in the catalog")
        return str(url).rstrip("/").removesuffix("/v2.0")

    @staticmethod
    def _refuse(answer: Any, method: str, path: str) -> None:
        """Raises the error that the answer stands for. Returns if the same request may succeed a moment later."""
        try:
            reply = answer.json()["NeutronError"]
            kind, message = str(reply["type"]), str(reply["message"])
        except (ValueError, LookupError, TypeError):
            kind, message = "", f"status {answer.status_code}"
        LOG.info("Neutron answers %s %s with status %d: %s %s", method, path, answer.status_code, kind, message)
        error = _BY_TYPE.get(kind) or _BY_STATUS.get(answer.status_code)
        if error is not None:
            raise error(f"The network service refuses it: {message[:255]}")
        if answer.status_code not in RETRIABLE:
            raise errors.ServiceUnavailable(_AWAY)
