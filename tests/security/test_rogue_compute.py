"""A compute with the configuration of one host reads and changes nothing of another: every method of every topic.

The methods come from the contracts, so that a new one is tried too. What RabbitMQ refuses it refuses before minova; what it lets
pass, by a topic that is allowed, a CC header or a dead-letter key, the services refuse by the user that RabbitMQ has validated.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import oslo_messaging
import pytest
import urllib3
from kombu.messaging import Producer
from sqlalchemy import select

from minova import errors, metrics
from minova.conductor.tasks.history import CONFIRM
from minova.context import service_context
from minova.contracts.base import Method, Role, methods_of
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.catalogue import image_token_keys
from minova.db.models import ChangeCounter, Instance
from minova.db.models import ComputeNode as NodeRow
from minova.image_tokens import LIFETIME, sign
from minova.messaging.broker_users import EXCHANGE, REPLIES, BrokerUser
from minova.messaging.rpc import Rpc, _Serializer
from minova.messaging.rpc_access import hosts_named, refusal
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.service import OTHER_HOST
from tests.cluster import Cluster, configure
from tests.functional.test_cloud import People
from tests.nightly import daily
from tests.security.broker_cloud import Attacker, Facts, Users, arguments_of, differences, envelope, rows, secure_cloud
from tests.servers.rabbitmq import SecureRabbitMQ
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

SECRET = "name-that-is-nobody-elses"
# Of every image here.
BYTES = b"\1" * 512
CONTRACTS: tuple[Any, ...] = (ConductorApi, ComputeApi, SchedulerApi)
METHODS = [(each, method) for each in CONTRACTS for method in methods_of(each).values()]
HEARTBEAT, HAS_SEEN = (methods_of(ConductorApi)[name] for name in ("heartbeat", "service_has_seen"))
MADE_UP = "5d3c4f3c-0000-4000-8000-00000000000f"
TOPICS = ["conductor", "conductor_api", "scheduler", "compute.victim", "compute"]
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=0)


# Values of fields that do not take any text: what is refused shall be refused for its sender.
VALID = {"resource_class": "VCPU", "trait": "HW_CPU_X86_AVX", "topic": "compute"}
FACTS = Facts(
    "victim",
    {"instance_uuid": "5d3c4f3c-0000-4000-8000-000000000001", "uuid": "5d3c4f3c-0000-4000-8000-000000000001"}
    | {"binary": "minova-compute", "id": 1, **VALID},
)


class Rogue:
    """The cloud, and who attacks it."""

    def __init__(self, cluster: Cluster, users: Users, folder: Path) -> None:
        self.cluster = cluster
        self.users = users
        self.url = users.url("compute", "rogue")
        self.attacker = Attacker(self.url)
        self.rpc = Rpc(configure(folder / "attack", host="rogue"), self.url)
        self.victim = _boot(cluster, SECRET, "victim")
        self.own = _boot(cluster, "own", "rogue")
        wait_for("the victim's first audit is noted", lambda: rows(cluster.db)["node_audits"])
        self.before = rows(cluster.db)

    def facts(self, host: str, node: str = "victim") -> Facts:
        """Of the victim's instance and of the id and uuid of its node, in the name of these."""
        with self.cluster.db.read() as session:
            instance = session.scalars(select(Instance).where(Instance.uuid == self.victim)).one()
            row = session.scalars(select(NodeRow).where(NodeRow.host == "victim")).one()
            device = {"address": "0000:00:01.0", "vendor_id": "8086", "product_id": "1"}
            figures = {"uuid": row.uuid, "id": row.id, "vcpus_used": 7, "pci_devices": [device]}
            names = {
                "instance_uuid": self.victim,
                "uuid": self.victim,
                "attempt": instance.attempt,
                "node": node,
                "hypervisor_hostname": node,
                "service_uuid": self.service_uuid(),
                "binary": "minova-compute",
                **VALID,
                "flavorid": FLAVOR.flavorid,
                "id": 1,
                "step": "spawning",
                "image_id": instance.image_ref,
            }
        return Facts(host, names, {ComputeNode: {**figures, "hypervisor_hostname": node}})

    def token(self, instance_uuid: str, image_id: str, host: str = "rogue") -> Any:
        """What a conductor answers to the rogue."""
        arguments = {"instance_uuid": instance_uuid, "image_id": image_id, "host": host}
        return self.call("conductor", ConductorApi, methods_of(ConductorApi)["image_token"], arguments)

    def download(self, image_id: str, token: str) -> tuple[int, bytes]:
        url = f"{self.cluster.url}/v2/images/{image_id}/file"
        answer = urllib3.request("GET", url, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        return answer.status, answer.data

    def service_uuid(self) -> str:
        service_rows = [row for row in rows(self.cluster.db)["services"] if row["host"] == "victim"]
        return str(service_rows[0]["uuid"])

    def call(self, topic: str, contract: Any, method: Method, arguments: dict[str, Any]) -> Any:
        """By minova's own client, as a compute that was broken into would. The answer, or the error as text."""
        target = oslo_messaging.Target(exchange=EXCHANGE, topic=topic, version=contract.VERSION)
        mandatory = oslo_messaging.TransportOptions(at_least_once=True)
        client = oslo_messaging.get_rpc_client(
            self.rpc.transport, target, serializer=_Serializer(), timeout=20, retry=2, transport_options=mandatory
        )
        ctx = service_context()
        try:
            sent = msgspec.to_builtins(arguments)
            return client.call(ctx, method.name, **sent)
        except Exception as error:  # noqa: BLE001  - whatever says no
            return error

    def assert_nothing_changed(self) -> None:
        assert differences(self.before, rows(self.cluster.db)) == {}
        driver = self.cluster.driver("victim")
        assert [domain.uuid for domain in driver.domains()] == [self.victim]


@pytest.fixture(scope="module")
def rogue(secure_rabbitmq: SecureRabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rogue]:
    folder = tmp_path_factory.mktemp("cloud")
    with secure_cloud(secure_rabbitmq, folder) as (cluster, users):
        rogue = Rogue(cluster, users, folder)
        yield rogue
        rogue.rpc.close()


def _boot(cluster: Cluster, name: str, host: str) -> str:
    """An instance on this host."""
    people = People(cluster.url)
    with contextlib.suppress(errors.Conflict):
        cluster.conductor.create_flavor(service_context(), flavor=FLAVOR)
    server = {"name": name, "flavorRef": FLAVOR.flavorid, "imageRef": people.image()}
    body = {"server": {**server, "availability_zone": f"nova:{host}"}}
    uuid = str(people.ask("POST", "/v2.1/servers", json=body)["server"]["id"])
    is_active = lambda: people.ask("GET", f"/v2.1/servers/{uuid}")["server"]["status"] == "ACTIVE"  # noqa: E731
    wait_for("the instance is active", is_active)
    return uuid


def _image_of(cluster: Cluster, instance_uuid: str) -> str:
    with cluster.db.read() as session:
        return str(session.scalars(select(Instance.image_ref).where(Instance.uuid == instance_uuid)).one())


# -- every method of every topic ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topic", daily(TOPICS, ("conductor", "compute.victim"), "the other topics refuse by the same table")
)
def test_no_method_can_be_called_in_the_name_of_another_host(rogue: Rogue, topic: str) -> None:
    facts = rogue.facts("victim")
    allowed = []
    for contract, method in METHODS:
        answer = rogue.call(topic, contract, method, arguments_of(method, facts))
        if method.name == "hosts_of_instances" and answer == {rogue.victim: OTHER_HOST}:
            continue
        if not isinstance(answer, Exception):
            allowed.append((contract.TOPIC, method.name, answer))
        elif topic == contract.TOPIC and topic == "conductor":
            assert type(answer).__name__.startswith("Forbidden"), (method.name, answer)
        else:
            assert isinstance(answer, Exception)
            assert not isinstance(answer, oslo_messaging.MessagingTimeout), (method.name, answer)
    assert allowed == []
    rogue.assert_nothing_changed()


@pytest.mark.parametrize("node", ["victim", "rogue"])
def test_own_host_with_the_instances_and_nodes_of_another_reaches_nothing(rogue: Rogue, node: str) -> None:
    """What passes because it names the sender's own host finds the fences: the rows say whose instance and node it is."""
    facts = rogue.facts("rogue", node)
    # What removes the rogue's own node last: without it other calls would fail for that.
    for method in sorted(methods_of(ConductorApi).values(), key=lambda one: one.name.startswith("delete")):
        if Role.COMPUTE in method.audience.roles:
            answer = rogue.call("conductor", ConductorApi, method, arguments_of(method, facts))
            assert not isinstance(answer, oslo_messaging.MessagingTimeout), method.name
            text = str(answer) if isinstance(answer, Exception) else json.dumps(answer, default=str)
            assert SECRET not in text, method.name
    rogue.assert_nothing_changed()


@pytest.mark.parametrize(
    ("contract", "method"), METHODS, ids=lambda one: getattr(one, "name", getattr(one, "TOPIC", ""))
)
def test_every_method_says_who_may_call_it_and_for_which_host(contract: Any, method: Method) -> None:
    """A new method without that is refused to all; this says so before it is tried."""
    assert method.audience.roles
    if Role.COMPUTE in method.audience.roles:
        assert method.audience.speaks_for_host
        arguments = method.arguments.from_builtins(msgspec.to_builtins(arguments_of(method, FACTS)))
        named = set(hosts_named(arguments))
        assert named == ({"victim"} if not method.of_no_host else set())
        sender = str(BrokerUser(Role.COMPUTE, "rogue"))
        assert (refusal(sender, method, arguments) is None) == method.of_no_host


# -- images ------------------------------------------------------------------------------------------------------------


def test_a_token_is_had_for_own_instances_alone(rogue: Rogue) -> None:
    image = _image_of(rogue.cluster, rogue.victim)
    for host in ("rogue", "victim"):
        answer = rogue.token(rogue.victim, image, host)
        assert type(answer).__name__.startswith(("StaleAttempt", "Forbidden")), answer
    rogue.assert_nothing_changed()


def test_secrets_are_had_for_own_instances_alone(rogue: Rogue) -> None:
    for host in ("rogue", "victim"):
        arguments = {"instance_uuid": rogue.victim, "host": host, "kinds": ["disks", "tpm"]}
        answer = rogue.call("conductor", ConductorApi, methods_of(ConductorApi)["guest_secrets"], arguments)
        assert type(answer).__name__.startswith(("StaleAttempt", "Forbidden")), answer
    rogue.assert_nothing_changed()


def test_a_token_gives_the_bytes_of_own_images_alone(rogue: Rogue) -> None:
    own, other = _image_of(rogue.cluster, rogue.own), _image_of(rogue.cluster, rogue.victim)
    token = rogue.token(rogue.own, own)
    assert rogue.download(own, token) == (200, BYTES)
    assert type(rogue.token(rogue.own, other)).__name__.startswith("StaleAttempt")
    keys = image_token_keys.read(rogue.cluster.db)
    forged = [sign(secret, other, keys.now) for secret in ("", "guess", token)]
    expired = sign(keys.accepted[-1], other, keys.now - LIFETIME)
    for wrong in (token, expired, token[:-2], token.replace(".", ".."), *forged):
        status, content = rogue.download(other, wrong)
        assert (status, BYTES in content) == (401, False)


# -- safe mode ---------------------------------------------------------------------------------------------------------


def test_made_up_marks_do_not_put_the_cloud_into_safe_mode(rogue: Rogue) -> None:
    """A host has real marks from the answers to its heartbeats, and may send what it likes as its own evidence."""
    beat = rogue.call("conductor", ConductorApi, HEARTBEAT, {"host": "rogue", "binary": "minova-compute"})
    assert not isinstance(beat, Exception), beat
    shown = beat["cloud"]
    mark = shown["marks"][0]
    real = {"uuid": shown["uuid"], "history": shown["history"], "marks": [mark]}
    forged = [
        {**real, "marks": [{**mark, "counter": MADE_UP}]},
        {**real, "marks": [{**mark, "number": mark["number"] + 10**9}]},
        {**real, "marks": [{**mark, "number": mark["number"] + 10**9, "seal": ""}]},
        {**real, "history": MADE_UP},
        {**real, "history": MADE_UP, "marks": []},
        {**real, "uuid": MADE_UP},
        real,
    ]
    for seen in forged:
        arguments = {"host": "rogue", "binary": "minova-compute", "seen": seen}
        answer = rogue.call("conductor", ConductorApi, HAS_SEEN, arguments)
        assert not isinstance(answer, Exception), answer
    service = {"uuid": MADE_UP, "host": "rogue", "binary": "minova-compute", "topic": "compute", "seen": forged[0]}
    answer = rogue.call("conductor", ConductorApi, methods_of(ConductorApi)["register_service"], {"service": service})
    assert not isinstance(answer, Exception), answer
    number, at = last_look(rogue)
    wait_for("a doubt would have lasted", lambda: has_looked(rogue, number + 3, at + 2 * CONFIRM))
    assert [row["safe_since"] for row in rows(rogue.cluster.db)["cloud"]] == [None]
    rogue.assert_nothing_changed()


def has_looked(rogue: Rogue, number: int, at: float) -> bool:
    later = last_look(rogue)
    return later[0] > number and later[1] > at


def last_look(rogue: Rogue) -> tuple[int, float]:
    """Of the conductor at its database: which, and when."""
    with rogue.cluster.db.read() as session:
        number, at = session.execute(select(ChangeCounter.number, ChangeCounter.changed_at)).one()
    return number, at


# -- messages that minova would not send -------------------------------------------------------------------------------


def terminate(rogue: Rogue) -> dict[str, Any]:
    """What ends the victim's guest, if its compute believes it."""
    arguments = {"instance_uuid": rogue.victim, "node": None}
    return envelope("terminate_instance", "1.0", arguments, sender="conductor.controller")


def refused(method: str) -> float:
    return metrics.REGISTRY.get_sample_value("minova_rpc_refused_total", {"method": method}) or 0.0


def test_a_sender_can_not_be_forged(rogue: Rogue) -> None:
    """Neither by the property, which RabbitMQ checks, nor by the message's own words."""
    answer = rogue.attacker.publish(EXCHANGE, "conductor", {}, user_id="conductor.controller")
    assert answer is not None
    assert "user_id" in answer
    before = refused("heartbeat")
    beat = envelope("heartbeat", "1.0", {"host": "victim", "binary": "minova-compute"}, sender="compute.victim")
    assert rogue.attacker.publish(EXCHANGE, "conductor", beat) is None
    wait_for("it is refused", lambda: refused("heartbeat") == before + 1)
    rogue.assert_nothing_changed()


@pytest.mark.parametrize("key", ["compute.victim", "compute", "conductor_api", "scheduler", "scheduler.scheduler0"])
@pytest.mark.parametrize("exchange", [EXCHANGE, "", REPLIES, "amq.topic", "amq.direct"])
def test_nothing_is_published_where_others_read(rogue: Rogue, exchange: str, key: str) -> None:
    answer = rogue.attacker.publish(exchange, key, terminate(rogue), user_id="compute.rogue")
    assert answer is not None
    assert "ACCESS_REFUSED" in answer


def test_the_cc_header_does_not_end_a_guest(rogue: Rogue) -> None:
    """RabbitMQ routes by it, and looks at the first key alone."""
    before = refused("terminate_instance")
    message = terminate(rogue)
    answer = rogue.attacker.publish(
        EXCHANGE, "conductor", message, user_id="compute.rogue", headers={"CC": ["compute.victim"]}
    )
    # The conductor gets it too, and does not know the method.
    assert answer is None or "ACCESS_REFUSED" in answer
    if answer is None:
        wait_for("the victim's compute refused it", lambda: refused("terminate_instance") > before)
    rogue.assert_nothing_changed()


def test_a_dead_letter_does_not_end_a_guest(rogue: Rogue) -> None:
    """A queue of the rogue's own hands its dead letters on with any key, which RabbitMQ does not look at either."""
    before = refused("terminate_instance")
    queue = f"reply/compute.rogue/{'0' * 32}"

    def act(channel: Any) -> None:
        letters = {
            "x-dead-letter-exchange": EXCHANGE,
            "x-dead-letter-routing-key": "compute.victim",
            "x-message-ttl": 0,
        }
        channel.exchange_declare(queue, "fanout", auto_delete=True)
        channel.queue_declare(queue, arguments=letters, auto_delete=False)
        channel.queue_bind(queue, queue)
        producer: Any = Producer(channel)  # type: ignore[no-untyped-call]
        producer.publish(terminate(rogue), exchange=queue, serializer="json", user_id="compute.rogue")

    assert rogue.attacker.tries(act) is None
    wait_for("the victim's compute refused it", lambda: refused("terminate_instance") > before)
    rogue.assert_nothing_changed()


def test_an_answer_goes_to_no_queue_of_requests(rogue: Rogue, caplog: pytest.LogCaptureFixture) -> None:
    """The asker names the queue of the answer: a conductor that believed it would write where the asker may not."""
    beat = envelope("heartbeat", "1.0", {"host": "rogue", "binary": "minova-compute"})
    inner = json.loads(beat["oslo.message"])
    inner |= {"_msg_id": "0" * 32, "_reply_q": "compute.victim"}
    body = {**beat, "oslo.message": json.dumps(inner)}
    assert rogue.attacker.publish(EXCHANGE, "conductor", body, user_id="compute.rogue") is None
    wait_for("the conductor drops its answer", lambda: "'compute.victim' is no queue of answers" in caplog.text)
    rogue.assert_nothing_changed()


# -- queues and exchanges ----------------------------------------------------------------------------------------------

OTHERS = [
    "compute.victim",
    "compute",
    "conductor",
    "conductor_api",
    "conductor.controller",
    "scheduler",
    "scheduler_fanout",
]


@pytest.mark.parametrize("queue", OTHERS)
def test_queues_of_others_are_not_read_emptied_made_bound_or_removed(rogue: Rogue, queue: str) -> None:
    acts = {
        "read": lambda channel: channel.basic_get(queue),
        "consume": lambda channel: channel.basic_consume(queue),
        "empty": lambda channel: channel.queue_purge(queue),
        "make": lambda channel: channel.queue_declare(queue),
        "remove": lambda channel: channel.queue_delete(queue),
        "bind": lambda channel: channel.queue_bind(queue, EXCHANGE, "compute.rogue"),
    }
    for name, act in acts.items():
        answer = rogue.attacker.tries(act)
        assert answer is not None, name
        assert "ACCESS_REFUSED" in answer, name


@pytest.mark.parametrize("exchange", [EXCHANGE, REPLIES])
@pytest.mark.parametrize(
    "key", ["#", "*", "compute.*", "compute.victim", "conductor", "reply/#", "reply/compute.victim/#"]
)
def test_own_queue_is_not_bound_to_the_messages_of_others(rogue: Rogue, exchange: str, key: str) -> None:
    queue = f"reply/compute.rogue/{'1' * 32}"

    def act(channel: Any) -> None:
        channel.queue_declare(queue)
        channel.queue_bind(queue, exchange, key)

    answer = rogue.attacker.tries(act)
    assert answer is not None
    assert "ACCESS_REFUSED" in answer


@pytest.mark.parametrize("exchange", [EXCHANGE, REPLIES, "other", "compute_fanout"])
def test_exchanges_are_neither_made_nor_removed(rogue: Rogue, exchange: str) -> None:
    for act in (
        lambda channel: channel.exchange_declare(exchange, "topic"),
        lambda channel: channel.exchange_delete(exchange),
    ):
        answer = rogue.attacker.tries(act)
        assert answer is not None
        assert "ACCESS_REFUSED" in answer


def test_no_queue_of_all_computes_is_there(rogue: Rogue) -> None:
    """Whatever came to one would reach another host."""
    answer = rogue.attacker.tries(lambda channel: channel.queue_declare("compute", passive=True))
    assert answer is not None
    assert "NOT_FOUND" in answer
