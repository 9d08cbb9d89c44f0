"""The certificates that a configuration names, and the warnings before they end."""

import logging
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from minova import certificates
from minova import conf as configuration
from minova.certificates import Certificate, CertificateFile
from minova.health.certificate_watch import INTERVAL, CertificateWatch
from minova.metrics import REGISTRY
from minova.virt.libvirt.migration.live_options import LiveOptions


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    folder = tmp_path_factory.mktemp("certificates")

    def certificate(days: int) -> Path:
        file = folder / f"{days}.pem"
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(folder / "key")]
        command = ["openssl", "req", "-x509", *key, "-days", str(days), "-subj", "/CN=test", "-out", str(file)]
        subprocess.run(command, check=True, capture_output=True)
        return file

    return certificate


def configured(**options: str) -> cfg.ConfigOpts:
    conf = configuration.load([], "minova-test", files=[])
    for name, value in options.items():
        conf.set_override(name, value, "api" if name == "ssl_cert_file" else "glance")
    return conf


def days_shown(option: str, file: Path) -> float:
    days = REGISTRY.get_sample_value("minova_certificate_days", {"option": option, "file": str(file)})
    assert days is not None
    return days


def read(file: Path, *, is_authority: bool = False) -> Certificate:
    return certificates.read(CertificateFile("[api] ssl_cert_file", str(file), is_authority))


def test_every_option_that_names_a_certificate_is_found() -> None:
    conf = configured(ssl_cert_file="/a.pem", cafile="/b.pem")
    assert certificates.of_options(conf) == [
        CertificateFile("[api] ssl_cert_file", "/a.pem", is_authority=False),
        CertificateFile("[glance] cafile", "/b.pem", is_authority=True),
    ]


def test_a_chain_ends_with_its_first_certificate_and_authorities_with_their_last(
    make: Callable[[int], Path], tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.write_text(make(3).read_text() + make(30).read_text())
    now = read(make(3)).ends
    assert read(both).ends == pytest.approx(now)
    assert read(both, is_authority=True).days(now) == pytest.approx(27, abs=0.1)


def test_a_certificate_is_warned_of_once_a_day_from_fourteen_days_before_its_end(
    make: Callable[[int], Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    file = make(20)
    now = start = read(file).ends - 20 * certificates.DAY
    watch = CertificateWatch(configured(ssl_cert_file=str(file)), threading.Event(), clock=lambda: now)

    def warnings_until(day: float) -> int:
        nonlocal now
        before = len(caplog.records)
        while now < start + day * certificates.DAY:
            watch.check()
            now += INTERVAL
        return len(caplog.records) - before

    assert warnings_until(5.9) == 0
    assert warnings_until(7.9) == 2
    assert f"The certificate {file} ([api] ssl_cert_file) ends at " in caplog.text
    assert warnings_until(21) in {13, 14}
    assert " ended at " in caplog.records[-1].getMessage()
    assert days_shown("[api] ssl_cert_file", file) < 0


def test_a_new_certificate_ends_the_warnings(make: Callable[[int], Path], caplog: pytest.LogCaptureFixture) -> None:
    file = make(5)
    watch = CertificateWatch(configured(ssl_cert_file=str(file)), threading.Event())
    watch.check()
    assert len(caplog.records) == 1
    file.write_bytes(make(100).read_bytes())
    watch.check()
    assert len(caplog.records) == 1


def test_a_file_that_cannot_be_read_is_left_to_its_own_service(tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    for name in ("none.pem", "text.pem"):
        assert (
            list(certificates.readable(certificates.of_options(configured(ssl_cert_file=str(tmp_path / name))))) == []
        )


OF_LIBVIRT = ["CA/cacert.pem", "libvirt/servercert.pem", "libvirt/clientcert.pem"]
OF_QEMU = ["ca-cert.pem", "server-cert.pem", "client-cert.pem"]
BOTH_OF_QEMU = ["qemu/server-cert.pem", "qemu/client-cert.pem"]


@pytest.mark.parametrize(
    ("options", "there", "files"),
    [
        ({}, [], []),
        ({"live_migration_scheme": "tls"}, [], OF_LIBVIRT),
        ({"live_migration_with_native_tls": True}, [], [*OF_LIBVIRT, *(f"qemu/{name}" for name in OF_QEMU)]),
        (
            {"live_migration_with_native_tls": True, "live_migration_scheme": "tcp"},
            ["qemu", "libvirt-migrate"],
            [f"libvirt-migrate/{name}" for name in OF_QEMU],
        ),
        ({}, ["qemu/server-cert.pem"], []),
        ({}, BOTH_OF_QEMU, [*OF_LIBVIRT, *(f"qemu/{name}" for name in OF_QEMU)]),
        ({"live_migration_with_native_tls": False}, BOTH_OF_QEMU, []),
    ],
)
def test_live_migrations_have_certificates_that_no_option_names(
    tmp_path: Path, options: dict[str, Any], there: list[str], files: list[str]
) -> None:
    conf = of_a_compute(**options)
    for name in there:
        (tmp_path / name).mkdir(parents=True)
    found = certificates.of_live_migrations(conf, tmp_path)
    assert [place.file for place in found] == [f"{tmp_path}/{file}" for file in files]
    assert {place.file for place in found if place.is_authority} == {
        f"{tmp_path}/{file}" for file in files if file.startswith("CA/") or file.endswith("ca-cert.pem")
    }
    conf.set_override("compute_driver", "fake.FakeDriver")
    assert certificates.of_live_migrations(conf, tmp_path) == []


def of_a_compute(**options: Any) -> cfg.ConfigOpts:
    conf = configured()
    conf.set_override("compute_driver", "libvirt.LibvirtDriver")
    for name, value in options.items():
        conf.set_override(name, value, "libvirt")
    return conf


def test_bug_certificates_of_live_migrations_ended_without_a_warning(
    make: Callable[[int], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "PKI", tmp_path)
    (tmp_path / "libvirt").mkdir()
    for name in ("server", "client"):
        (tmp_path / "libvirt" / f"{name}cert.pem").write_bytes(make(5).read_bytes())
    conf = of_a_compute(live_migration_scheme="tls")
    CertificateWatch(conf, threading.Event()).check()
    assert caplog.text == ""
    watch = CertificateWatch(conf, threading.Event(), moves_guests=True)
    for _ in range(2):
        watch.check()
    messages = [record.getMessage() for record in caplog.records]
    start = f"The certificate {tmp_path}/libvirt/"
    assert [message.partition(" ends at ")[0] for message in messages] == [
        f"{start}servercert.pem (live migration: libvirt)",
        f"{start}clientcert.pem (live migration: libvirt)",
    ]
    assert days_shown("live migration: libvirt", tmp_path / "libvirt/servercert.pem") == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize(("there", "scheme"), [([], "tcp"), (BOTH_OF_QEMU[:1], "tcp"), (BOTH_OF_QEMU, "tls")])
def test_guests_migrate_encrypted_where_the_host_has_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: list[str], scheme: str
) -> None:
    for name in there:
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(certificates, "PKI", tmp_path)
    live = LiveOptions.of(of_a_compute())
    assert (live.scheme, live.with_tls) == (scheme, scheme == "tls")
    assert LiveOptions.of(of_a_compute(live_migration_with_native_tls=False)).with_tls is False


def test_certificates_that_a_process_may_not_look_for_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path, **_: Any) -> Any:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "stat", forbidden)
    assert certificates.encrypts_live_migrations(of_a_compute(), tmp_path)
