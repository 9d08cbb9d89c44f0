"""The destination of a live migration chooses neither what the source's libvirtd opens nor which disks it copies."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import libvirt
import msgspec
import pytest

from minova.codecs import Decoder
from minova.errors import HypervisorError
from minova.objects.servers.live_migration import LiveDestination, LiveMode
from minova.virt.libvirt.migration.live_options import LiveOptions
from minova.virt.libvirt.migration.live_run import LiveRun

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
DOMAIN = "<domain><devices><disk><source file='/i/disk'/><target dev='vda'/></disk></devices></domain>"
HOSTILE = "qemu+ssh://x/system?command=/bin/bash"


class Called(Exception):
    """libvirt was asked to migrate."""


class Source:
    """Connection, domain and host in one."""

    uri: str

    @contextmanager
    def connection(self, *_: object) -> Iterator["Source"]:
        yield self

    def lookupByUUIDString(self, _: str) -> "Source":  # noqa: N802  - libvirt's name
        return self

    def name(self) -> str:
        return "instance"

    def XMLDesc(self, _: int = 0) -> str:  # noqa: N802
        return DOMAIN

    def state(self) -> tuple[int, int]:
        return libvirt.VIR_DOMAIN_RUNNING, 0

    def migrateToURI3(self, uri: str, *_: object) -> None:  # noqa: N802
        self.uri = uri
        raise Called


def destination(**changed: Any) -> LiveDestination:
    live_destination = LiveDestination(
        mode=LiveMode.BLOCK, uri=HOSTILE, address="192.0.2.7", tls_name=None, xml="", persistent_xml="", copied=("vda",)
    )
    return msgspec.structs.replace(live_destination, **changed)


def migrate(told: LiveDestination) -> str:
    """Returns the URI that the source's libvirtd gets."""
    source: Any = Source()
    run = LiveRun(source, LiveOptions(scheme="tls"), UUID, told, size=1, stays_paused=False)
    with pytest.raises(Called):
        run._migrate()
    return str(source.uri)


def test_the_source_makes_the_uri_from_the_address() -> None:
    assert migrate(destination()) == "qemu+tls://192.0.2.7/system"


def test_disks_that_the_guest_does_not_have_are_refused() -> None:
    source: Any = Source()
    told = destination(copied=("vda", "sda"))
    with pytest.raises(HypervisorError, match="disks that instance does not have"):
        LiveRun(source, LiveOptions(), UUID, told, size=1, stays_paused=False)._migrate()


@pytest.mark.parametrize("field", ["address", "tls_name"])
@pytest.mark.parametrize(
    "value", ["", "x/system?command=/bin/sh#", "x?a", "a@b", "-oProxyCommand=x", "a b", "x\n", "a%2f"]
)
def test_an_address_is_only_an_address(field: str, value: str) -> None:
    raw = msgspec.to_builtins(destination(**{field: value}))
    with pytest.raises(msgspec.ValidationError):
        Decoder(LiveDestination).from_builtins(raw)


@pytest.mark.parametrize("value", ["192.0.2.7", "::1", "2001:db8::1", "host-1.example_net.org"])
def test_addresses_and_names_are_accepted(value: str) -> None:
    raw = msgspec.to_builtins(destination(address=value, tls_name=value))
    assert Decoder(LiveDestination).from_builtins(raw).address == value
