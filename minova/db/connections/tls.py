"""`[database] ssl`: TLS to the database, as the drivers of PostgreSQL and MariaDB take it from a URL.

The server's certificate is checked and must match the host name in the URL. The drivers check nothing by default:
PostgreSQL's driver connects without TLS if the server has none.
"""

import ssl
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from minova import errors


def connection_url(options: Any) -> str:
    """Returns the URL of `[database] connection` with the `ssl` options added.

    Raises InvalidConfiguration if the database has no TLS, or there are no authorities to check its certificate
    against.
    """
    url = str(options.connection)
    if not options.ssl:
        return url
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise errors.InvalidConfiguration(f"[database] connection: {error}") from None
    names = _NAMES.get(parsed.get_backend_name())
    if names is None:
        raise errors.InvalidConfiguration("[database] ssl is for PostgreSQL and MariaDB, and connection is neither")
    authorities = options.ssl_ca_file or ssl.get_default_verify_paths().cafile
    if authorities is None:
        raise errors.InvalidConfiguration(
            "[database] ssl needs ssl_ca_file: this system keeps no authorities in one file"
        )
    files = {"ca": authorities, "cert": options.ssl_cert_file, "key": options.ssl_key_file}
    query = {names[name]: value for name, value in files.items() if value}
    return parsed.update_query_dict({**query, **_CHECKS[parsed.get_backend_name()]}).render_as_string(
        hide_password=False
    )


_NAMES = {
    "postgresql": {"ca": "sslrootcert", "cert": "sslcert", "key": "sslkey"},
    "mysql": {"ca": "ssl_ca", "cert": "ssl_cert", "key": "ssl_key"},
}
_CHECKS = {"postgresql": {"sslmode": "verify-full"}, "mysql": {"ssl_check_hostname": "true"}}
