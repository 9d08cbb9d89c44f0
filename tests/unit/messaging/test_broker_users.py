"""What the users of services may do at RabbitMQ, as it reads the patterns."""

import re

import pytest

from minova.contracts.base import Role
from minova.messaging.broker_users import EXCHANGE, REPLIES, BrokerUser, permissions_of, user_of

REPLY = "reply/{}/" + "0" * 32
HV1 = BrokerUser(Role.COMPUTE, "hv1")
# Nothing is asked of them.
ASK_ALONE = {Role.API, Role.CONSOLEPROXY, Role.METADATA, Role.METADATA_PROXY}


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("compute.hv1", HV1),
        ("api.ctl.example.org", BrokerUser(Role.API, "ctl.example.org")),
        ("metadata.hv1", BrokerUser(Role.METADATA, "hv1")),
        ("metadataproxy.hv1", BrokerUser(Role.METADATA_PROXY, "hv1")),
        ("compute.", None),
        ("minova", None),
        ("xcompute.hv1", None),
        ("", None),
        (None, None),
    ],
)
def test_user_is_named_for_service_and_host(name: str | None, user: BrokerUser | None) -> None:
    assert user_of(name) == user
    assert user is None or str(user) == name


@pytest.mark.parametrize(
    ("name", "configure", "write", "read"),
    [
        ("compute.hv1", True, True, True),
        (REPLY.format("compute.hv1"), True, True, True),
        (EXCHANGE, False, True, True),
        (REPLIES, False, True, True),
        ("amq.default", False, False, False),
        ("amq.topic", False, False, False),
        ("compute", False, False, False),
        ("compute.hv10", False, False, False),
        ("compute.hv1.example.org", False, False, False),
        ("compute_hv1", False, False, False),
        (REPLY.format("compute.hv1.example.org"), False, False, False),
        (REPLY.format("conductor.hv1"), False, False, False),
        ("conductor", False, False, False),
        ("nova", False, False, False),
    ],
)
def test_compute_has_its_own_queues_alone(name: str, configure: bool, write: bool, read: bool) -> None:
    permissions = permissions_of(HV1)
    permitted = [
        bool(re.search(pattern, name)) for pattern in (permissions.configure, permissions.write, permissions.read)
    ]
    assert permitted == [configure, write, read]


@pytest.mark.parametrize(
    ("role", "writes", "reads"),
    [
        (Role.COMPUTE, {"conductor"}, {"compute.h"}),
        (Role.API, {"conductor_api", "compute.h", "compute.x"}, set()),
        (Role.SCHEDULER, {"conductor"}, {"scheduler", "scheduler.h"}),
        (Role.METADATA, {"conductor_api"}, set()),
        (Role.METADATA_PROXY, {"conductor_api"}, set()),
        (
            Role.CONDUCTOR,
            {"conductor", "scheduler", "compute.h", "compute.x"},
            {"conductor", "conductor_api", "conductor.h", "conductor_api.h"},
        ),
    ],
)
def test_topics(role: Role, writes: set[str], reads: set[str]) -> None:
    keys = {"conductor", "conductor_api", "conductor.h", "conductor_api.h", "conductor.x", "scheduler", "scheduler.h"}
    keys |= {"scheduler.x", "compute", "compute.h", "compute.x", "#", "compute.*", "*"} - ({"compute.*"} & writes)
    write, read = permissions_of(BrokerUser(role, "h")).topics[EXCHANGE]
    # A publisher's key is taken literally, so that a pattern in it reaches no queue.
    assert {key for key in keys - {"compute.*"} if re.search(write, key)} == writes
    assert {key for key in keys if re.search(read, key)} == reads


@pytest.mark.parametrize("role", Role)
def test_answers_are_read_by_their_asker_alone(role: Role) -> None:
    write, read = permissions_of(BrokerUser(role, "h")).topics[REPLIES]
    assert re.search(read, REPLY.format(f"{role}.h"))
    assert not re.search(read, REPLY.format(f"{role}.x"))
    assert not re.search(read, f"reply/{role}.h/#")
    assert not re.search(write, REPLY.format("compute.x")) or role is Role.CONDUCTOR
    assert bool(re.search(write, REPLY.format("conductor.x"))) == (role not in ASK_ALONE)
