"""The certificate of a listener, which is read again on SIGHUP."""

import logging
import ssl
from pathlib import Path

from minova import errors

LOG = logging.getLogger(__name__)


class ServerCertificate:
    """`group`: the group of the options.

    Raises InvalidConfiguration, which names the option, if the certificate cannot be used.
    """

    def __init__(self, cert_file: str, key_file: str, group: str) -> None:
        self._files = (cert_file, key_file)
        self._group = group
        self.context = self._load()

    def reload(self) -> None:
        """Reads the certificate for new connections. A certificate that cannot be used changes nothing."""
        try:
            self._load()
            self.context.load_cert_chain(*self._files)
        except (errors.InvalidConfiguration, OSError) as error:
            LOG.error("The certificate stays as it was: %s", error)
            return
        LOG.info("The certificate %s was read again", self._files[0])

    def _load(self) -> ssl.SSLContext:
        cert, key = self._files
        for option, value in (("ssl_cert_file", cert), ("ssl_key_file", key)):
            if not Path(value).is_file():
                raise errors.InvalidConfiguration(f"[{self._group}] {option} = {value}: there is no such file.")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(cert, key)
        except OSError as error:
            raise errors.InvalidConfiguration(
                f"[{self._group}] ssl_cert_file = {cert}, ssl_key_file = {key}: they cannot be used: {error}"
            ) from None
        return context


def certificate(cert_file: str | None, key_file: str | None, group: str = "api") -> ServerCertificate | None:
    """Returns None, for plain HTTP, if both files are missing. Raises InvalidConfiguration if only one is missing."""
    if not cert_file and not key_file:
        return None
    for option, value in (("ssl_cert_file", cert_file), ("ssl_key_file", key_file)):
        if not value:
            raise errors.InvalidConfiguration(f"[{group}] {option} is not set: both files are needed to serve HTTPS.")
    return ServerCertificate(cert_file or "", key_file or "", group)
