"""A guest that wrote one NUL character had no console log any more: the API takes no text with one from a host."""

from pathlib import Path
from typing import Any

from minova.context import RequestContext, service_context
from minova.contracts.compute import ComputeApi
from minova.messaging import rpc
from minova.objects.servers.instance import Instance
from minova.virt.driver import ComputeDriver


class Host:
    """Answers calls by its driver."""

    def __init__(self, driver: ComputeDriver) -> None:
        self._driver = driver

    def prepare(self, **_: Any) -> "Host":
        return self

    def call(self, ctx: RequestContext, name: str, *, instance_uuid: str, tail_length: int | None) -> Any:
        return self._driver.console_output(instance_uuid, tail_length)


def test_log_has_no_control_characters(driver: ComputeDriver, guest: Instance, tmp_path: Path) -> None:
    """As in Nova, which leaves out all but tabs and line ends."""
    log = tmp_path / "instances" / guest.uuid / "console.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"\0\0\x1b[2J1\tbooted\r\n2\tready \xc3\xa9\xff\a\n")
    proxy: Any = rpc.Proxy(Host(driver), ComputeApi, host="hv1")
    output = proxy.get_console_output(service_context(), instance_uuid=guest.uuid, tail_length=None)
    assert output == "[2J1\tbooted\n2\tready é\ufffd\n"
    assert proxy.get_console_output(service_context(), instance_uuid=guest.uuid, tail_length=1) == "2\tready é\ufffd"
