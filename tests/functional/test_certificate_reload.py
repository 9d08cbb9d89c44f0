"""A new certificate is served after SIGHUP, by every worker, without a restart; one that cannot be used changes nothing."""

import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.http_process import make_certificate
from tests.servers.private_server import free_ports
from tests.tables import make_tables
from tests.waiting import wait_for

WORKERS = 2


class TlsApi:
    """`minova-api` over a database file."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.folder = folder
        self.log_file = folder / "log"
        make_tables(url := f"sqlite:///{folder}/minova.sqlite")
        make_certificate(folder)
        conf = folder / "minova.conf"
        conf.write_text(
            f"[DEFAULT]\nstate_path = {folder}\ntransport_url = kombu+memory://localhost/\n[database]\nconnection = {url}\n"
            f"[api]\nworkers = {WORKERS}\nosapi_compute_listen_port = {self.port}\n"
            f"ssl_cert_file = {folder}/cert.pem\nssl_key_file = {folder}/key.pem\n"
        )
        command = [str(Path(sys.executable).parent / "minova-api"), "--config-file", str(conf)]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def hang_up(self, said: str) -> None:
        """Until each worker has said so."""
        before = self.log.count(said)
        self.process.send_signal(signal.SIGHUP)
        wait_for(said, lambda: self.log.count(said) >= before + WORKERS)

    def served(self) -> set[str]:
        """Certificates of some connections, which any worker may have taken."""
        return {ssl.get_server_certificate(("127.0.0.1", self.port), timeout=30) for _ in range(8)}

    def file(self) -> str:
        return (self.folder / "cert.pem").read_text()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[TlsApi]:
    running = TlsApi(tmp_path)
    try:
        ready = f"{WORKERS} workers of minova-api listen"
        wait_for("workers", lambda: ready in running.log or running.process.poll() is not None)
        assert running.process.poll() is None, running.log[-3000:]
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def test_certificate_is_read_again_on_sighup(api: TlsApi) -> None:
    first = api.file()
    assert api.served() == {first}
    make_certificate(api.folder)
    second = api.file()
    assert second != first
    api.hang_up("cert.pem was read again")
    assert api.served() == {second}
    key = (api.folder / "key.pem").read_text()
    (api.folder / "key.pem").write_text(key.replace("A", "B"))
    api.hang_up("The certificate stays as it was")
    assert api.served() == {second}
