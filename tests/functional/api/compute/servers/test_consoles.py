"""Addresses of consoles, as OpenStack's clients ask for them."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from minova import errors
from minova.context import RequestContext
from tests.functional.api.conftest import Cloud


class NoPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(stocked: Cloud) -> str:
    uuid: str = stocked.make_server()["id"]
    stocked.conductor.edit(uuid, host="h1", vm_state="active", task_state=None)
    stocked.consoles.texts[uuid] = "login:"
    return uuid


def console(cloud: Cloud, server: str, action: str, wanted: Any) -> tuple[int, Any]:
    return cloud.ask("POST", f"/v2.1/servers/{server}/action", {action: wanted})


def test_screen_has_the_address_of_the_page(stocked: Cloud, server: str) -> None:
    status, answer = console(stocked, server, "os-getVNCConsole", {"type": "novnc"})
    url = "http://127.0.0.1:6080/vnc_lite.html?path=%3Ftoken%3Dtoken-of-novnc"
    assert (status, answer) == (200, {"console": {"type": "novnc", "url": url}})


def test_screen_without_a_page_is_refused_with_the_reason(stocked: Cloud, server: str) -> None:
    """The listener of any server that answers 404 stands for a proxy without noVNC."""
    with HTTPServer(("127.0.0.1", 0), NoPage) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{proxy.server_port}/vnc_lite.html"
        stocked.conf.set_override("novncproxy_base_url", url, group="vnc")
        status, answer = console(stocked, server, "os-getVNCConsole", {"type": "novnc"})
        serial, _ = console(stocked, server, "os-getSerialConsole", {"type": "serial"})
        proxy.shutdown()
    assert (status, serial) == (400, 200)
    assert f"the console proxy at {url} has no page of noVNC" in answer["badRequest"]["message"]


def test_serial_console_has_the_address_of_a_websocket(stocked: Cloud, server: str) -> None:
    status, answer = console(stocked, server, "os-getSerialConsole", {"type": "serial"})
    url = "ws://127.0.0.1:6080/?token=token-of-serial"
    assert (status, answer) == (200, {"console": {"type": "serial", "url": url}})


@pytest.mark.parametrize(
    ("action", "wanted", "text"),
    [
        ("os-getSPICEConsole", {"type": "spice-html5"}, "Unavailable console type spice-html5. minova serves novnc"),
        ("os-getRDPConsole", {"type": "rdp-html5"}, "Unavailable console type rdp-html5"),
        ("os-getVNCConsole", {"type": "xvpvnc"}, "Unavailable console type xvpvnc"),
        ("os-getVNCConsole", {"type": "serial"}, "Invalid input for field/attribute type. Value: serial."),
        ("os-getVNCConsole", {"type": 5}, "Invalid input for os-getVNCConsole"),
        ("os-getVNCConsole", {}, "Invalid input for os-getVNCConsole"),
        ("os-getVNCConsole", None, "Invalid input for os-getVNCConsole"),
        ("os-getVNCConsole", {"type": "novnc", "port": 1}, "Invalid input for os-getVNCConsole"),
    ],
)
def test_console_that_is_not_served_is_refused(
    stocked: Cloud, server: str, action: str, wanted: Any, text: str
) -> None:
    status, answer = console(stocked, server, action, wanted)
    assert status == 400
    assert text in answer["badRequest"]["message"]


def test_server_that_is_still_built_has_none(stocked: Cloud) -> None:
    uuid = stocked.make_server()["id"]
    status, answer = console(stocked, uuid, "os-getVNCConsole", {"type": "novnc"})
    assert (status, "no host yet" in answer["conflictingRequest"]["message"]) == (409, True)


def test_refusals_of_the_host_reach_the_user(stocked: Cloud, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(error: errors.MinovaError) -> None:
        class Compute:
            def get_console(self, ctx: RequestContext, **_: Any) -> None:
                raise error

        monkeypatch.setattr(type(stocked.consoles), "__call__", lambda self, host: Compute())

    refuse(errors.Conflict(f"Instance {server} does not run."))
    assert console(stocked, server, "os-getVNCConsole", {"type": "novnc"})[0] == 409
    refuse(errors.ConsoleTypeUnavailable("Unavailable console type novnc."))
    status, answer = console(stocked, server, "os-getVNCConsole", {"type": "novnc"})
    assert (status, answer["badRequest"]["message"]) == (400, "Unavailable console type novnc.")
    refuse(errors.HypervisorUnavailable("qemu+tcp://10.0.0.7/system: refused"))
    assert console(stocked, server, "os-getVNCConsole", {"type": "novnc"})[0] == 503
