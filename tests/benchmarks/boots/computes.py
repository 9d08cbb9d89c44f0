"""Many computes with fake drivers in one process: python -m tests.benchmarks.boots.computes FOLDER URL API HOSTS"""

import sys
import threading
from pathlib import Path

from minova import service
from minova.cmd import compute
from minova.messaging.rpc import Rpc
from tests.cluster import configure


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
