"""Many computes with fake drivers in one process: python -m tests.benchmarks.boots.computes FOLDER URL API HOSTS"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minova import service
from minova.cmd import compute
from minova.messaging.rpc import Rpc
from tests.cluster import configure
from tests.integration.deployment import Deployment


@contextmanager
def started(
    deployment: Deployment, hosts: int, program: str = "tests.benchmarks.boots.computes"
) -> Iterator["subprocess.Popen[bytes]"]:
    """The process of the computes, which are ready."""
    words = [str(deployment.folder), deployment.transport_url, deployment.url, str(hosts)]
    with (deployment.folder / "computes.log").open("wb") as log:
        command = [sys.executable, "-W", "ignore", "-m", program, *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()  # stopping fifty services in order takes a minute
        process.wait(60)


def main() -> None:
    folder, transport_url, api_url, hosts = sys.argv[1:]
    stopping = threading.Event()
    service.stop_on_signals(stopping)
    rpc = None
    services = []
    for number in range(int(hosts)):
        host = f"host-{number}"
        conf = configure(Path(folder) / host, host=host, glance__endpoint_override=api_url, fake_vcpus=256)
        rpc = rpc or Rpc(conf, transport_url)
        services.append(compute.compose(conf, rpc, stopping))
    service.run(services, stopping, lambda: print("ready", flush=True))


if __name__ == "__main__":
    main()
