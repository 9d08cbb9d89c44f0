"""A private nginx in front of an API, as docs/operators/proxy.md has it."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.private_server import free_ports
from tests.waiting import wait_for

DOCUMENT = Path(__file__).parents[2] / "docs" / "operators" / "proxy.md"
# What differs from an operator's nginx: it runs as the user who runs the tests, in a folder of theirs.
MAIN = """
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{site}
}}
"""


class Nginx:
    """`certificate`: a folder with cert.pem and key.pem."""

    def __init__(self, folder: Path, api_port: int, certificate: Path) -> None:
        (self.port,) = free_ports(1)
        _, _, rest = DOCUMENT.read_text().partition("```nginx\n")
        site = rest.partition("```")[0]
        for written, own in (
            ("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
            ("server 127.0.0.1:8774", f"server 127.0.0.1:{api_port}"),
            ("/etc/nginx/cloud.crt", str(certificate / "cert.pem")),
            ("/etc/nginx/cloud.key", str(certificate / "key.pem")),
        ):
            assert written in site, written
            site = site.replace(written, own)
        file = folder / "nginx.conf"
        file.write_text(MAIN.format(folder=folder, site=site))
        self._log = folder / "nginx.log"
        with self._log.open("wb") as log:
            command = ["/usr/sbin/nginx", "-e", "stderr", "-c", str(file), "-p", str(folder)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        wait_for("nginx", lambda: self._process.poll() is not None or self._listens())
        assert self._process.poll() is None, self._log.read_text()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _listens(self) -> bool:
        listening = f"127.0.0.1:{self.port}"
        return listening in subprocess.run(["ss", "-ltnH"], capture_output=True, text=True).stdout
