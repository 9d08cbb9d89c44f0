"""A stolen compute sends valid messages to the conductor as fast as it can, over a real RabbitMQ with a user for each host: seconds that
servers of another host take until they are ACTIVE, without and with the flood. `--former`: without lines of hosts.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from minova.context import service_context
from minova.contracts.base import methods_of
from minova.contracts.conductor import ConductorApi
from minova.messaging import rpc
from tests.benchmarks.command_line import Option, parse
from tests.cluster import Cluster
from tests.functional.test_cloud import People
from tests.security.broker_cloud import Facts, Users, arguments_of, envelope, secure_cloud
from tests.security.test_rogue_compute import FACTS, FLAVOR
from tests.servers.authority import Authority
from tests.servers.rabbitmq import SecureRabbitMQ
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]
FLOOD = """
import json, sys, time
from kombu.connection import Connection
from kombu.messaging import Producer
url, rate, body = sys.argv[1], float(sys.argv[2]), json.loads(sys.stdin.read())
with Connection(url.replace("rabbit://", "amqp://", 1)) as connection:
    producer = Producer(connection.channel())
    print("begun", flush=True)
    begun, sent = time.monotonic(), 0
    while True:
        producer.publish(body, exchange="minova", routing_key="conductor", serializer="json", user_id="compute.rogue")
        sent += 1
        time.sleep(max(0.0, begun + sent / rate - time.monotonic()))
"""


@contextmanager
def flood(users: Users, rate: int) -> Iterator[None]:
    """The rogue asks for its audit again and again: a few statements of the database for each message."""
    method = methods_of(ConductorApi)["begin_audit"]
    facts = Facts("rogue", {**FACTS.names, "hypervisor_hostname": "rogue"}, FACTS.fields)
    body = envelope(method.name, ConductorApi.VERSION, arguments_of(method, facts))
    command = [sys.executable, "-c", FLOOD, users.url("compute", "rogue"), str(rate)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as flooding:
        assert flooding.stdin is not None
        assert flooding.stdout is not None
        flooding.stdin.write(json.dumps(body))
        flooding.stdin.close()
        assert flooding.stdout.readline() == "begun\n"
        time.sleep(5)  # until messages wait
        try:
            yield
        finally:
            flooding.kill()


def boots(cluster: Cluster, people: People, image: str, count: int) -> list[float]:
    """Seconds of each of several servers, one after the other, on the other host."""
    took = []
    for number in range(count):
        begun = time.monotonic()
        server = {"name": f"s{number}", "flavorRef": FLAVOR.flavorid, "imageRef": image}
        body = {"server": {**server, "availability_zone": "nova:victim"}}
        path = f"/v2.1/servers/{people.ask('POST', '/v2.1/servers', json=body)['server']['id']}"
        wait_for("the server", lambda path=path: people.ask("GET", path)["server"]["status"] == "ACTIVE", 600)  # type: ignore[misc]
        took.append(time.monotonic() - begun)
    return took


def main() -> None:
    chosen = parse(
        "floods",
        __doc__,
        Option("servers", 10, 1, "servers of the other host"),
        Option("rate", 2000, 20, "messages a second that the stolen compute tries to send"),
        Option("former", False, False, "without lines of hosts"),
    )
    if chosen.former:
        vars(rpc)["share_threads"] = lambda server: None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with SecureRabbitMQ(Authority(folder)) as broker, secure_cloud(broker, folder) as (cluster, users):
            cluster.conductor.create_flavor(service_context(), flavor=FLAVOR)
            people = People(cluster.url)
            image = people.image()
            boots(cluster, people, image, 1)
            quiet = boots(cluster, people, image, chosen.servers)
            with flood(users, chosen.rate):
                flooded = boots(cluster, people, image, chosen.servers)
    for what, took in (("quiet", quiet), ("flooded", flooded)):
        print(f"{what:8} median {median(took):.2f} s, longest {max(took):.2f} s")


if __name__ == "__main__":
    main()
