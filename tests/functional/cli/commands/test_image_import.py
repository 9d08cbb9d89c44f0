"""`minova image stage|import|import info`, against minova-api itself."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed

JSON = ("-f", "json")
DATA = b"\1" * 4096


class Mirror(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_known = self.path == "/disk.raw"
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Length", str(len(DATA) if is_known else 0))
        self.end_headers()
        self.wfile.write(DATA if is_known else b"")

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@pytest.fixture
def mirror(cloud: Cloud) -> Iterator[str]:
    """The address of a server from which the cloud may download."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cloud.conf.set_override("enabled_import_methods", ["glance-direct", "web-download"], group="api")
        for name, value in (("allowed_networks", ["127.0.0.1/32"]), ("allowed_ports", [server.server_port])):
            cloud.conf.set_override(name, value, group="import_filtering_opts")
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_bytes_are_staged_and_become_an_image(minova: Cli, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(DATA)
    created = json_output(minova("image", "create", "later", "--disk-format", "raw", *JSON))
    assert (created["status"], created["size"]) == ("queued", None)
    early = minova("image", "import", "later")
    assert (early.code, "needs to be staged" in early.err) == (1, True)
    succeed(minova("image", "stage", "later", "--file", str(tmp_path / "disk")))
    shown = json_output(minova("image", "import", "later", "--wait", *JSON))
    assert (shown["id"], shown["status"], shown["size"]) == (created["id"], "active", len(DATA))


def test_refused_bytes_leave_the_record(minova: Cli, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"QFI\xfb" + DATA)
    succeed(minova("image", "create", "later", "--disk-format", "qcow2"))
    refused = minova("image", "stage", "later", "--file", str(tmp_path / "disk"))
    assert (refused.code, "The image was refused" in refused.err) == (1, True)
    assert json_output(minova("image", "show", "later", *JSON))["status"] == "queued"


def test_the_cloud_downloads_an_image_or_says_why_not(minova: Cli, mirror: str) -> None:
    assert json_output(minova("image", "import", "info", *JSON)) == {
        "import-methods": ["glance-direct", "web-download"]
    }
    succeed(minova("image", "create", "later", "--disk-format", "raw"))
    web = ("image", "import", "later", "--method", "web-download", "--uri")
    failed = minova(*web, f"{mirror}/none", "--wait")
    assert (failed.code, "The import failed: " in failed.err) == (1, True), failed
    shown = json_output(minova(*web, f"{mirror}/disk.raw", "--wait", *JSON))
    assert (shown["status"], shown["size"]) == ("active", len(DATA))


@pytest.mark.parametrize("words", [("--uri", "http://x/y"), ("--method", "web-download")])
def test_an_address_belongs_to_a_download(minova: Cli, words: tuple[str, ...]) -> None:
    result = minova("image", "import", "later", *words)
    assert (result.code, "--method web-download and --uri belong together" in result.err) == (2, True)
