"""Vendor data of services that are asked for each guest."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from minova import conf as configuration
from minova.errors import InvalidConfiguration, ServiceUnavailable
from minova.virt.config_drive.builder import GuestFiles
from minova.virt.config_drive.vendor_data import LONGEST_ANSWER
from minova.virt.driver.domains import NO_DATA
from tests.unit.virt.config_drive.test_contents import BASIC

ANSWERS = {"/good": (200, b'{"join": "token"}'), "/broken": (200, b"{"), "/fails": (500, b"{}")}
ANSWERS |= {"/long": (200, b'"' + b"x" * LONGEST_ANSWER + b'"'), "/moved": (302, b"{}")}


class Service(HTTPServer):
    asked: list[Any]


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status, content = ANSWERS[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Location", "/good")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing on standard error."""


@pytest.fixture
def server() -> Iterator[Service]:
    service = Service(("127.0.0.1", 0), Handler)
    service.asked = []
    Thread(target=service.serve_forever, args=(0.01,), daemon=True).start()
    yield service
    service.shutdown()
    service.server_close()


def files(**options: Any) -> GuestFiles:
    conf = configuration.load([], "test", files=[])
    for name, value in options.items():
        conf.set_override(name, value, group="api")
    guest_files = GuestFiles(conf)
    guest_files.check()
    return guest_files


def target(server: Service, path: str) -> str:
    return f"{path}@http://127.0.0.1:{server.server_port}/{path}"


def second(found: dict[str, bytes]) -> Any:
    return json.loads(found["openstack/latest/vendor_data2.json"])


def test_each_service_has_its_name_and_is_told_of_the_guest(server: Service, tmp_path: Path) -> None:
    file = tmp_path / "vendor_data.json"
    file.write_text('{"motd": "welcome"}')
    wrong = [target(server, path) for path in ("broken", "fails", "long", "moved")]
    guest_files = files(
        vendordata_providers=["StaticJSON", "DynamicJSON"],
        vendordata_jsonfile_path=str(file),
        vendordata_dynamic_targets=[target(server, "good"), *wrong],
    )
    drive_files = guest_files.of(msgspec.structs.replace(BASIC, metadata={"role": "web"}), NO_DATA)
    empty: dict[str, Any] = {"broken": {}, "fails": {}, "long": {}, "moved": {}}
    assert second(drive_files) == {"static": {"motd": "welcome"}, "good": {"join": "token"}, **empty}
    assert json.loads(drive_files["openstack/latest/vendor_data.json"]) == {"motd": "welcome"}
    assert server.asked[0] == {
        "project-id": "demo",
        "instance-id": BASIC.uuid,
        "image-id": BASIC.image_ref,
        "user-data": None,
        "hostname": "web-1.novalocal",
        "metadata": {"role": "web"},
        "boot-roles": None,
    }


def test_failure_may_be_fatal(server: Service) -> None:
    guest_files = files(
        vendordata_providers=["DynamicJSON"],
        vendordata_dynamic_targets=[target(server, "fails")],
        vendordata_dynamic_failure_fatal=True,
    )
    with pytest.raises(ServiceUnavailable, match="Vendor data of fails"):
        guest_files.of(BASIC, NO_DATA)


def test_only_named_providers_are_used(server: Service) -> None:
    assert second(files(vendordata_dynamic_targets=[target(server, "good")]).of(BASIC, NO_DATA)) == {"static": {}}
    assert second(files(vendordata_providers=[]).of(BASIC, NO_DATA)) == {}
    assert server.asked == []


@pytest.mark.parametrize("targets", [["x@ftp://h/"], ["a@http://h/", "a@http://i/"], ["static@http://h/"]])
def test_target_that_cannot_be_is_refused_at_the_start(targets: list[str]) -> None:
    with pytest.raises(InvalidConfiguration, match="vendordata_dynamic_targets"):
        files(vendordata_providers=["DynamicJSON"], vendordata_dynamic_targets=targets)
