"""The certificates that the configuration names, or that libvirt and QEMU read for live migrations, and when they end."""

import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from oslo_config import cfg

DAY = 86_400.0
# Options that name certificates. An authority's file may hold old and new ones, of which one must be valid.
OWN = ("ssl_cert_file", "certfile", "cert_file")
AUTHORITIES = ("ssl_ca_file", "cafile", "ca_file", "ssl_ca_certs")
# Where libvirt looks, and in what QEMU's certificates for migrations are if the operator has set them apart.
PKI = Path("/etc/pki")
_OF_QEMU = ("libvirt-migrate", "qemu")
WITH_LIBVIRT, WITH_QEMU = "live migration: libvirt", "live migration: QEMU"


class CertificateFile(NamedTuple):
    """`option`: as the operator writes it, such as `[api] ssl_cert_file`, or what reads the file. `is_authority`: the file may hold old and
    new certificates, of which one must be valid.
    """

    option: str
    file: str
    is_authority: bool


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """`option`: as in CertificateFile. `ends`: seconds since the epoch."""

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


def of_options(conf: cfg.ConfigOpts) -> list[CertificateFile]:
    """Returns the files of certificates that the options name."""
    return [
        CertificateFile(option, file, option.rpartition(" ")[2] in AUTHORITIES)
        for option, file in files(conf, (*OWN, *AUTHORITIES)).items()
    ]


def encrypts_live_migrations(conf: cfg.ConfigOpts, pki: Path | None = None) -> bool:
    """Returns what the option says; unset: whether QEMU of this host has certificates as client and as server. Those that this process
    may not look for are there.
    """
    if conf.libvirt.live_migration_with_native_tls is not None:
        return bool(conf.libvirt.live_migration_with_native_tls)
    folder = _of_qemu(pki or PKI)
    return all(_is_there(folder / f"{name}-cert.pem") for name in ("server", "client"))


def _of_qemu(pki: Path) -> Path:
    return next((pki / name for name in _OF_QEMU if _is_there(pki / name)), pki / _OF_QEMU[-1])


def _is_there(file: Path) -> bool:
    try:
        file.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def of_live_migrations(conf: cfg.ConfigOpts, pki: Path | None = None) -> list[CertificateFile]:
    """Returns the files that libvirt and QEMU of a compute's host read for its live migrations, as client and as server. They are there by
    their names: no option has them.
    """
    pki = pki or PKI
    scheme, encrypts = conf.libvirt.live_migration_scheme, encrypts_live_migrations(conf, pki)
    if conf.compute_driver.partition(".")[0] != "libvirt":
        return []
    paths: list[tuple[str, Path, bool]] = []
    if scheme == "tls" or (scheme is None and encrypts):
        paths.append((WITH_LIBVIRT, pki / "CA" / "cacert.pem", True))
        paths += [(WITH_LIBVIRT, pki / "libvirt" / f"{name}cert.pem", False) for name in ("server", "client")]
    if encrypts:
        folder = _of_qemu(pki)
        paths.append((WITH_QEMU, folder / "ca-cert.pem", True))
        paths += [(WITH_QEMU, folder / f"{name}-cert.pem", False) for name in ("server", "client")]
    return [CertificateFile(option, str(path), is_authority) for option, path, is_authority in paths]


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


def read(place: CertificateFile) -> Certificate:
    """Raises OSError if the file cannot be read, and ValueError if it has no certificate."""
    # Imported here, because most services have no certificate, and the import takes a tenth of a second.
    from cryptography import x509  # noqa: PLC0415

    certificates = x509.load_pem_x509_certificates(Path(place.file).read_bytes())
    ends = [certificate.not_valid_after_utc.timestamp() for certificate in certificates]
    return Certificate(option=place.option, file=place.file, ends=max(ends) if place.is_authority else min(ends))


def readable(places: Iterable[CertificateFile]) -> Iterator[Certificate]:
    """Yields the certificates that this process can read: one file may configure services of several users."""
    for place in places:
        try:
            yield read(place)
        except (OSError, ValueError):
            continue
