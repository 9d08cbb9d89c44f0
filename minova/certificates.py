"""The certificates that the configuration names, and when they end."""

import time
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
from oslo_config import cfg

DAY = 86_400.0
# Options that name certificates. An authority's file may hold old and new ones, of which one must be valid.
OWN = ("ssl_cert_file", "certfile", "cert_file")
AUTHORITIES = ("ssl_ca_file", "cafile", "ca_file", "ssl_ca_certs")


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """`option`: as the operator writes it, such as `[api] ssl_cert_file`. `ends`: seconds since the epoch."""

    option: str
    file: str
    ends: float

    def days(self, now: float) -> float:
        """Returns the days until it ends; negative if it has ended."""
        return (self.ends - now) / DAY

    def warning(self, now: float) -> str:
        """Returns a sentence about its end."""
        at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.ends))
        if self.ends <= now:
            return f"The certificate {self.file} ({self.option}) ended at {at}: connections that check it fail"
        return f"The certificate {self.file} ({self.option}) ends at {at}, in {self.days(now):.1f} days"


def files_of_options(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Returns the files of certificates that the options name, by option."""
    return files(conf, (*OWN, *AUTHORITIES))


def files(conf: cfg.ConfigOpts, names: Collection[str]) -> dict[str, str]:
    """Returns the values of the options with these names that are set, of all groups."""
    paths = {}
    for group in (None, *sorted(conf._groups)):
        options = conf._opts if group is None else conf._groups[group]._opts
        for name in sorted(set(options).intersection(names)):
            value = conf[name] if group is None else conf[group][name]
            if value:
                paths[f"[{group or 'DEFAULT'}] {name}"] = str(value)
    return paths


def read(option: str, file: str) -> Certificate:
    """Raises OSError if the file cannot be read, and ValueError if it has no certificate."""
    # Imported here, because most services have no certificate, and the import takes a tenth of a second.
    from cryptography import x509  # noqa: PLC0415

    certificates = x509.load_pem_x509_certificates(Path(file).read_bytes())
    ends = [certificate.not_valid_after_utc.timestamp() for certificate in certificates]
    is_own = option.rpartition(" ")[2] in OWN
    return Certificate(option=option, file=file, ends=min(ends) if is_own else max(ends))


def readable(conf: cfg.ConfigOpts) -> Iterator[Certificate]:
    """Yields the certificates that this process can read: one file may configure services of several users."""
    for option, file in files_of_options(conf).items():
        try:
            yield read(option, file)
        except (OSError, ValueError):
            continue
