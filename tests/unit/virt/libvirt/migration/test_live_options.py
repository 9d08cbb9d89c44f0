"""What each option of a live migration means: flags, parameters, seconds and downtimes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import libvirt
import msgspec
import pytest

from minova.objects.servers.live_migration import LiveDestination, LiveMode
from minova.virt.libvirt.migration.live_options import Downtime, LiveOptions, uri_of_peer
from tests.cluster import configure

GIB = 1 << 30
BLOCK = LiveDestination(
    mode=LiveMode.BLOCK,
    uri="",
    address="192.0.2.7",
    tls_name=None,
    xml="<domain/>",
    persistent_xml="<domain id='later'/>",
    copied=("vda", "vdb"),
)
SHARED = msgspec.structs.replace(BLOCK, mode=LiveMode.SHARED, copied=())
UNLOCKED = msgspec.structs.replace(SHARED, unlocked=True)
WITH_TLS = msgspec.structs.replace(BLOCK, tls_name="two.example")
FLAGS = {name: getattr(libvirt, f"VIR_MIGRATE_{name}") for name in (
    "LIVE", "PEER2PEER", "PERSIST_DEST", "UNDEFINE_SOURCE", "NON_SHARED_DISK", "NON_SHARED_INC", "PAUSED", "UNSAFE", "POSTCOPY",
    "AUTO_CONVERGE", "PARALLEL", "TLS", "TUNNELLED",
)}  # fmt: skip
ALWAYS = {"LIVE", "PEER2PEER", "PERSIST_DEST"}
COPIES, LOCKS = {"NON_SHARED_INC", "PAUSED"}, {"UNSAFE"}


def of(folder: Path, **options: Any) -> LiveOptions:
    """`options`: without `live_migration_`. This machine may have certificates, from which TLS would follow."""
    named = {f"libvirt__live_migration_{name}": value for name, value in ({"with_native_tls": False} | options).items()}
    return LiveOptions.of(configure(folder, **named))


def flags(options: LiveOptions, destination: LiveDestination) -> set[str]:
    chosen = options.flags(destination)
    names = {name for name, flag in FLAGS.items() if chosen & flag}
    assert sum(FLAGS[name] for name in names) == chosen
    return names


@pytest.mark.parametrize(
    ("options", "destination", "more"),
    [
        ({}, BLOCK, COPIES),
        ({}, SHARED, LOCKS),
        ({}, UNLOCKED, LOCKS | {"PAUSED"}),
        # A guest without a disk that is copied.
        ({}, msgspec.structs.replace(BLOCK, copied=()), {"PAUSED"}),
        ({"permit_auto_converge": True}, BLOCK, COPIES | {"AUTO_CONVERGE"}),
        ({"permit_auto_converge": True}, SHARED, LOCKS | {"AUTO_CONVERGE"}),
        ({"permit_post_copy": True}, SHARED, LOCKS | {"POSTCOPY"}),
        # libvirt refuses both for a guest that arrives paused, and post-copy with several connections.
        ({"permit_post_copy": True}, BLOCK, COPIES),
        ({"permit_post_copy": True}, UNLOCKED, LOCKS | {"PAUSED"}),
        ({"permit_post_copy": True, "parallel_connections": 2}, SHARED, LOCKS | {"PARALLEL"}),
        # Post-copy ends every migration, so nothing slows the guest before.
        ({"permit_post_copy": True, "permit_auto_converge": True}, SHARED, LOCKS | {"POSTCOPY"}),
        ({"permit_post_copy": True, "permit_auto_converge": True}, BLOCK, COPIES | {"AUTO_CONVERGE"}),
        ({"parallel_connections": 1}, BLOCK, COPIES),
        ({"parallel_connections": 2}, BLOCK, COPIES | {"PARALLEL"}),
        ({"with_native_tls": True}, WITH_TLS, COPIES | {"TLS"}),
    ],
)
def test_each_option_has_its_flag(
    tmp_path: Path, options: Mapping[str, Any], destination: LiveDestination, more: set[str]
) -> None:
    assert flags(of(tmp_path, **options), destination) == ALWAYS | more


@pytest.mark.parametrize(
    ("options", "destination", "parameters"),
    [
        ({}, BLOCK, {"migrate_disks": ["vda", "vdb"]}),
        ({}, SHARED, {}),
        ({"bandwidth": 7}, SHARED, {"bandwidth": 7}),
        ({"parallel_connections": 4}, SHARED, {"parallel.connections": 4}),
        ({"with_native_tls": True}, WITH_TLS, {"migrate_disks": ["vda", "vdb"], "tls.destination": "two.example"}),
        (
            {"with_native_tls": True, "parallel_connections": 4},
            WITH_TLS,
            {"migrate_disks": ["vda", "vdb"], "tls.destination": "two.example", "parallel.connections": 4},
        ),
        # Without TLS no name is asked for.
        ({}, WITH_TLS, {"migrate_disks": ["vda", "vdb"]}),
    ],
)
def test_each_option_has_its_parameter(
    tmp_path: Path, options: Mapping[str, Any], destination: LiveDestination, parameters: Mapping[str, Any]
) -> None:
    assert of(tmp_path, **options).parameters(destination) == {
        "migrate_uri": "tcp://192.0.2.7",
        "listen_address": "192.0.2.7",
        "destination_xml": "<domain/>",
        "persistent_xml": "<domain id='later'/>",
        **parameters,
    }


@pytest.mark.parametrize(
    ("address", "uri", "listens"),
    [("192.0.2.7", "192.0.2.7", True), ("2001:db8::7", "[2001:db8::7]", True), ("two.example", "two.example", False)],
)
def test_the_destination_is_reached_at_its_own_address(address: str, uri: str, listens: bool) -> None:
    """QEMU listens on it alone, if it is an address."""
    destination = msgspec.structs.replace(SHARED, address=address)
    parameters = LiveOptions().parameters(destination)
    assert parameters["migrate_uri"] == f"tcp://{uri}"
    assert parameters.get("listen_address") == (address if listens else None)
    assert LiveOptions(scheme="tls").peer(destination) == f"qemu+tls://{uri}/system"


@pytest.mark.parametrize(
    ("options", "scheme"),
    [
        ({}, "tcp"),
        ({"with_native_tls": True}, "tls"),
        ({"scheme": "tls"}, "tls"),
        # QEMU's TLS goes without libvirt's.
        ({"scheme": "tcp", "with_native_tls": True}, "tcp"),
    ],
)
def test_the_scheme_is_the_configured_one_or_follows_tls(
    tmp_path: Path, options: Mapping[str, Any], scheme: str
) -> None:
    chosen = of(tmp_path, **options)
    assert chosen.scheme == scheme
    assert chosen.with_tls is options.get("with_native_tls", False)
    assert uri_of_peer(chosen.scheme, "two") == f"qemu+{scheme}://two/system"


@pytest.mark.parametrize(("action", "forces"), [(None, False), ("abort", False), ("force_complete", True)])
def test_the_action_at_the_time_out(tmp_path: Path, action: str | None, forces: bool) -> None:
    options = {} if action is None else {"timeout_action": action}
    assert of(tmp_path, **options).force_at_timeout is forces


@pytest.mark.parametrize(
    ("timeout", "size", "seconds"),
    [
        (800, 4 * GIB, 3200.0),
        (800, 3 * GIB // 2, 1600.0),  # as for two GiB at least
        (5, 5 * GIB // 2, 12.5),
        (0, 4 * GIB, None),
    ],
)
def test_a_migration_may_take_so_long_for_each_gigabyte(
    tmp_path: Path, timeout: int, size: int, seconds: float | None
) -> None:
    assert of(tmp_path, completion_timeout=timeout).timeout_of(size) == seconds


def test_the_permitted_downtime_grows_as_in_nova(tmp_path: Path) -> None:
    """Ten steps up to 400 ms for 3 GiB, as in nova/tests/unit/virt/libvirt/test_migration.py."""
    options = of(tmp_path, downtime=400, downtime_steps=10, downtime_delay=30)
    steps = list(options.downtimes(3 * GIB))
    assert steps == [
        Downtime(after=90 * number, milliseconds=milliseconds)
        for number, milliseconds in enumerate((37, 38, 39, 42, 46, 55, 70, 98, 148, 238, 400))
    ]


@pytest.mark.parametrize(("steps", "last"), [(3, 500), (10, 500)])
def test_the_last_downtime_is_the_configured_one(tmp_path: Path, steps: int, last: int) -> None:
    options = of(tmp_path, downtime=last, downtime_steps=steps, downtime_delay=10)
    downtimes = list(options.downtimes(GIB))
    assert len(downtimes) == steps + 1
    assert [step.after for step in downtimes] == [20.0 * number for number in range(steps + 1)]
    assert [step.milliseconds for step in downtimes] == sorted(step.milliseconds for step in downtimes)
    assert last - 1 <= downtimes[-1].milliseconds <= last


def test_a_post_copy_may_stall_for_so_long(tmp_path: Path) -> None:
    assert of(tmp_path, post_copy_stall=7).stall == 7.0
