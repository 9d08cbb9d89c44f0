"""TLS to the broker: its certificate is verified and must contain the name of the host that minova connects to.

oslo.messaging verifies nothing without `ssl_ca_file`, and no host names if transport_url has several hosts.
"""

import ssl
from typing import Any

from kombu import transport
from kombu.transport import pyamqp

from minova.messaging import flow_control


def checked(params: Any) -> dict[str, Any]:
    """Returns the driver's parameters with the checks enabled. Without an authority of its own, it trusts those of the
    system.
    """
    tls_params = params if isinstance(params, dict) else {}
    return {**tls_params, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None}


class TlsTransport(pyamqp.Transport):
    """Checks each host by its own name; kombu keeps the first one's when it goes on to the next host."""

    Connection = flow_control.AmqpConnection
    client: Any

    def establish_connection(self) -> Any:
        host = self.client.hostname
        if isinstance(self.client.ssl, dict):
            self.client.ssl = {**self.client.ssl, "server_hostname": host}
        try:
            return super().establish_connection()  # type: ignore[no-untyped-call]
        finally:
            self.client.hostname = host  # kombu turns `localhost` into an address, which is in no certificate


def use() -> None:
    """Makes connections to brokers of this process use this transport."""
    transport.TRANSPORT_ALIASES["amqp"] = f"{__name__}:TlsTransport"
