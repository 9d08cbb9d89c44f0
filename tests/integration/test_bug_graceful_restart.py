"""A server of a one-host cloud went to ERROR when the host was stopped gracefully in the middle of its build."""

import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.integration.test_standalone import Standalone
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(400)


class SlowImages:
    """An image service that gives nothing but the first byte until it is opened."""

    def __init__(self, data: bytes) -> None:
        self.asked, self.opened = threading.Event(), threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[:1])
                owner.asked.set()
                owner.opened.wait(300)
                self.wfile.write(data[1:])

            def log_message(self, *_: object) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def images(guest_image: Path) -> Iterator[SlowImages]:
    slow_images = SlowImages(guest_image.read_bytes())
    yield slow_images
    slow_images.opened.set()
    slow_images.server.shutdown()
    slow_images.server.server_close()


def test_a_server_of_a_one_host_cloud_outlives_a_graceful_restart_in_its_build(
    tmp_path: Path, images: SlowImages, guest_image: Path
) -> None:
    with Libvirtd() as libvirtd:
        cloud = Standalone(tmp_path, graceful_shutdown_timeout=2)
        file = tmp_path / "minova.conf"
        more = ["[libvirt]", f"connection_uri = {libvirtd.uri}", "virt_type = qemu"]
        more += ["[glance]", f"endpoint_override = {images.url}", "timeout = 300", ""]
        file.write_text(file.read_text() + "\n".join(more))
        try:
            cloud.start()
            cloud.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
            cloud.cli("server", "create", "vm", "--flavor", "m1.nano", "--image", "guest")
            assert images.asked.wait(60)
            begun = time.monotonic()
            assert cloud.stop(signal.SIGTERM) == 0
            assert time.monotonic() - begun < 45
            assert "the next start resumes them" in cloud.log
            cloud.start()
            assert cloud.json("server", "show", "vm")["status"] == "BUILD"
            images.opened.set()
            wait_for("the end of the build", lambda: cloud.json("server", "show", "vm")["status"] != "BUILD", 120)
            assert cloud.json("server", "show", "vm")["status"] == "ACTIVE"
            cloud.cli("server", "delete", "vm", "--wait")
        finally:
            cloud.kill()
