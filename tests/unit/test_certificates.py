"""The certificates that a configuration names, and the warnings before they end."""

import logging
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from oslo_config import cfg

from minova import certificates
from minova import conf as configuration
from minova.health.certificate_watch import INTERVAL, CertificateWatch
from minova.metrics import CERTIFICATE_DAYS


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


def test_every_option_that_names_a_certificate_is_found() -> None:
    conf = configured(ssl_cert_file="/a.pem", cafile="/b.pem")
    assert certificates.files_of_options(conf) == {"[api] ssl_cert_file": "/a.pem", "[glance] cafile": "/b.pem"}


def test_a_chain_ends_with_its_first_certificate_and_authorities_with_their_last(
    make: Callable[[int], Path], tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.write_text(make(3).read_text() + make(30).read_text())
    now = certificates.read("[api] ssl_cert_file", str(make(3))).ends
    assert certificates.read("[api] ssl_cert_file", str(both)).ends == pytest.approx(now)
    assert certificates.read("[glance] cafile", str(both)).days(now) == pytest.approx(27, abs=0.1)


def test_a_certificate_is_warned_of_once_a_day_from_fourteen_days_before_its_end(
    make: Callable[[int], Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    file = make(20)
    now = start = certificates.read("[api] ssl_cert_file", str(file)).ends - 20 * certificates.DAY
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
    assert CERTIFICATE_DAYS.labels("[api] ssl_cert_file", str(file))._value.get() < 0


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
        assert list(certificates.readable(configured(ssl_cert_file=str(tmp_path / name)))) == []
