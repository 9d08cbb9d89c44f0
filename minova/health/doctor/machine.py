"""The configuration of this machine: certificates, modes of files, unknown options."""

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from oslo_config import cfg

from minova import certificates, private_files
from minova.conf import foreign_options
from minova.conf.foreign_options import Meaning
from minova.health.certificate_watch import SOON
from minova.health.doctor.findings import Finding, Severity
from minova.health.doctor.service_files import ServiceFiles

_PAGE = "docs/operators/hosts.md#network-for-moves"
# How a new certificate is brought in where no option names the file.
_RENEW = {
    certificates.WITH_LIBVIRT: f"put a new one there, and systemctl restart libvirtd: guests run on ({_PAGE})",
    certificates.WITH_QEMU: f"put a new one there: the next live migration reads it ({_PAGE})",
}
_RENEW_OF_OPTION = "put a new one there, and reload the services (docs/operators/configure.md#certificates)"
KEYS = ("ssl_key_file", "keyfile", "key_file")


def check(services: ServiceFiles, options: Iterable[foreign_options.OptionFinding], now: float) -> Iterator[Finding]:
    """`options`: what each option in the configuration files does. Yields each fault once: services share files."""
    findings = [*services.check(), *_options(options)]
    for conf in services.distinct():
        findings += _certificates(certificates.of_options(conf), now)
        findings += _keys_and_folders(conf)
    of_compute = services.of_compute()
    # One file may configure controllers and computes. A compute makes this folder.
    if Path(of_compute.instances_path).is_dir():
        findings += _certificates(certificates.of_live_migrations(of_compute), now)
    findings += _modes(services.files())
    yield from {finding.key: finding for finding in findings}.values()


def _options(options: Iterable[foreign_options.OptionFinding]) -> Iterator[Finding]:
    for finding in options:
        mend = f"correct its name; minova-manage config check {finding.file} shows what each option does"
        place = f"{finding.option} in {finding.file}"
        if finding.meaning is Meaning.UNKNOWN:
            detail = f"did you mean {finding.text}?" if finding.text else ""
            yield _of_option(place, "is no option that minova reads", detail, mend)
        elif finding.meaning is Meaning.OTHER_NAME:
            yield _of_option(place, "is not read under this name", f"here it is {finding.text}", mend)
        elif finding.meaning is Meaning.PROTECTS:
            text = "asks for a protection that minova has not: no service starts with it"
            mend = "remove it, and protect by other means (docs/operators/configure.md#from-a-novaconf)"
            yield _of_option(place, text, finding.text, mend, Severity.ERROR)


def _of_option(place: str, problem: str, detail: str, mend: str, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(area="options", subject=place, problem=problem, detail=detail, mend=mend, severity=severity)


def _certificates(places: Iterable[certificates.CertificateFile], now: float) -> Iterator[Finding]:
    for place in places:
        option, file, _ = place
        try:
            certificate = certificates.read(place)
        except PermissionError:
            continue
        except (OSError, ValueError) as error:
            yield Finding(
                area="certificates",
                subject=f"{file} ({option})",
                problem="cannot be used",
                detail=str(error),
                mend=_RENEW.get(option, f"correct {option}, or put a certificate there"),
            )
            continue
        if certificate.days(now) <= SOON:
            has_ended = certificate.days(now) <= 0
            yield Finding(
                area="certificates",
                subject=f"{file} ({option})",
                problem="has ended" if has_ended else "ends soon",
                detail=f"{certificate.days(now):.1f} days",
                mend=_RENEW.get(option, _RENEW_OF_OPTION),
                severity=Severity.ERROR if has_ended else Severity.WARNING,
            )


def _modes(files: Iterable[Path]) -> Iterator[Finding]:
    for file in files:
        if private_files.readable_by_others(file) and private_files.holds_password(file):
            yield _open(file, "can be read by all users, and holds passwords", f"chmod 640 {file}")


def _keys_and_folders(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    for option, name in certificates.files(conf, KEYS).items():
        if private_files.readable_by_others(Path(name)):
            yield _open(Path(name), f"can be read by all users, and is a key ({option})", f"chmod 640 {name}")
    for folder in (Path(name) for name in (conf.state_path, conf.instances_path, conf.api.images_path)):
        try:
            mode = folder.stat().st_mode
        except OSError:
            continue
        if mode & stat.S_IRWXO and not mode & stat.S_ISVTX:
            yield _open(folder, "is open to all users", f"chmod o= {folder}")


def _open(path: Path, problem: str, mend: str) -> Finding:
    return Finding(area="files", subject=str(path), problem=problem, mend=mend)
