"""A compute stops within 10 s though a service outside hangs for which its work waits. It needed 65 s while the image service hung, since
the conductor and the hypervisor answered.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_bug_stop_without_broker import STOPS_WITHIN
from tests.integration.test_standalone import Standalone
from tests.servers.libvirtd import Libvirtd

pytestmark = pytest.mark.timeout(400)


class HangingService:
    """Answers GET with the file `image`, if it is there; it takes all other requests, and never answers."""

    def __init__(self, image: Path) -> None:
        self.asked, over = threading.Event(), threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not image.exists():
                    self.do_POST()
                    return
                content = image.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_POST(self) -> None:
                service.asked.set()
                over.wait(300)

            def do_PUT(self) -> None:
                self.do_POST()

            def log_message(self, *_: Any) -> None:
                """Silent."""

        service = self
        self._over = over
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Of an image service that serves it."""
    return tmp_path / "served"


@pytest.fixture
def hanging(image: Path) -> Iterator[HangingService]:
    with closing(HangingService(image)) as service:
        yield service


@pytest.fixture
def cloud(tmp_path: Path, hanging: HangingService) -> Iterator[Standalone]:
    with Libvirtd() as libvirtd:
        standalone = Standalone(tmp_path)
        file = tmp_path / "minova.conf"
        (of_api,) = (line for line in file.read_text().splitlines() if line == "[api]")
        vendor = "vendordata_providers = DynamicJSON\nvendordata_dynamic_read_timeout = 300\n"
        vendor += f"vendordata_dynamic_targets = hanging@{hanging.url}/vendor"
        options = f"[libvirt]\nconnection_uri = {libvirtd.uri}\nvirt_type = qemu\n"
        options += f"[glance]\nendpoint_override = {hanging.url}\ntimeout = 300\n"
        file.write_text(file.read_text().replace(of_api, f"{of_api}\n{vendor}") + options)
        try:
            standalone.start()
            standalone.cli("image", "create", "guest", "--file", str(disk(tmp_path)), "--disk-format", "raw")
            yield standalone
        finally:
            standalone.kill()


def disk(folder: Path) -> Path:
    path = folder / "disk.raw"
    path.write_bytes(b"\1" * 4096)
    return path


def stops(cloud: Standalone, waits_for: str) -> None:
    begun = time.monotonic()
    assert cloud.stop(signal.SIGTERM) == 0
    took = time.monotonic() - begun
    print(f"{took:.1f} s")
    assert took < STOPS_WITHIN, cloud.log[-4000:]
    assert f"All running work waits for {waits_for}, so the stop waits for no work" in cloud.log


def create(cloud: Standalone, *more: str) -> None:
    cloud.cli("server", "create", "vm", "--flavor", "m1.nano", "--image", "guest", *more)


def test_bug_compute_waits_for_an_image_service_that_hangs(cloud: Standalone, hanging: HangingService) -> None:
    create(cloud)
    assert hanging.asked.wait(60)
    stops(cloud, "the image service")


def test_bug_compute_waits_for_a_vendor_data_service_that_hangs(
    cloud: Standalone, hanging: HangingService, image: Path
) -> None:
    image.write_bytes(disk(image.parent).read_bytes())
    create(cloud, "--config-drive")
    assert hanging.asked.wait(60)
    stops(cloud, "a vendor data service")


def test_bug_compute_waits_for_an_image_service_that_does_not_take_an_image(
    cloud: Standalone, hanging: HangingService, image: Path
) -> None:
    image.write_bytes(disk(image.parent).read_bytes())
    create(cloud, "--wait")
    cloud.cli("server", "image", "create", "vm", "--name", "snapshot")
    assert hanging.asked.wait(60)
    stops(cloud, "the image service")
