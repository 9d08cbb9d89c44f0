"""A call that had waited for a thread of a busy server was executed although its caller had reported that it was not done."""

import threading
from pathlib import Path

import pytest

from minova import errors
from minova.context import service_context
from minova.contracts.compute import ComputeApi
from minova.messaging.dispatch import Implementation
from minova.messaging.rpc import Rpc
from tests.cluster import configure
from tests.waiting import wait_for

PATIENCE = 1.0


class Host:
    """Each call takes until `go_on` is set."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go_on = threading.Event()

    def __getattr__(self, name: str) -> object:
        return lambda *_, **__: None

    def get_console_output(self, ctx: object, instance_uuid: str, tail_length: int | None) -> str:
        self.begun.append(instance_uuid)
        self.go_on.wait(60)
        return "output"


def test_a_call_whose_caller_has_gone_is_not_begun(tmp_path: Path) -> None:
    conf, host = configure(tmp_path), Host()
    rpc = Rpc(conf, "kombu+memory://localhost/")
    server = rpc.server(ComputeApi, Implementation(parts=(host,)), host="h")
    conf.set_override("executor_thread_pool_size", 1)  # an option that the server has registered
    server.start()
    try:
        hasty = rpc.client(ComputeApi, server="h", timeout=PATIENCE)
        for uuid in ("first", "second"):
            with pytest.raises(errors.NoAnswer):
                hasty.get_console_output(service_context(), instance_uuid=uuid, tail_length=None)
        assert host.begun == ["first"]
        host.go_on.set()
        patient = rpc.client(ComputeApi, server="h", timeout=60)
        assert patient.get_console_output(service_context(), instance_uuid="third", tail_length=None) == "output"
        wait_for("the third is done", lambda: "third" in host.begun)
        assert host.begun == ["first", "third"]
    finally:
        host.go_on.set()
        server.stop()
        server.wait()
        rpc.close()
