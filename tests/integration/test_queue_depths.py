"""The depths of queues on a real RabbitMQ."""

from pathlib import Path
from typing import Any

from minova.context import service_context
from minova.contracts.compute import ComputeApi
from minova.messaging.dispatch import Implementation
from minova.messaging.queue_depths import Depth, depths
from minova.messaging.rpc import Rpc
from tests.cluster import configure
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for


class _Nothing:
    """Its server declares the queue and is stopped before any method is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def test_messages_of_a_host_that_is_off_are_counted_and_absent_queues_are_left_out(
    rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    rpc = Rpc(configure(tmp_path), rabbitmq.fresh_url())
    try:
        server = rpc.server(ComputeApi, Implementation(parts=(_Nothing(),)), host="hv")
        server.start()
        names = ["absent", "compute.hv", "absent.too"]
        wait_for("its queue", lambda: depths(rpc, names) == {"compute.hv": Depth(0, 1)})
        server.stop()
        server.wait()
        rpc.client(ComputeApi, server="hv").refresh_interfaces(service_context())
        wait_for("the message", lambda: depths(rpc, names).get("compute.hv", Depth(0, 0)).messages == 1)
    finally:
        rpc.close()
