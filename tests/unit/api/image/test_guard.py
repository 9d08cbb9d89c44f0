"""What minova-api does not connect to, whatever a user names."""

from collections.abc import Sequence

import pytest
from oslo_config import cfg

from minova import conf as configuration
from minova import errors
from minova.api.image.importing.guard import ImportRefused, allowed_networks, checked, may_connect

PUBLIC = "93.184.216.34"


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    return configuration.load([], "test", files=[])


def to(*addresses: str):  # type: ignore[no-untyped-def]
    """A resolver that knows these."""

    def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


FORBIDDEN = [
    "127.0.0.1", "127.8.9.10", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
    "224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1", "203.0.113.9",
    "::", "::1", "fe80::1", "fe80::1%2", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.1.2.3", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "::127.0.0.1", "::10.0.0.1", "2001:0:0:0:0:0:80ff:fffe",
    "", "localhost", "1.2.3", "0x7f000001",
]  # fmt: skip


@pytest.mark.parametrize("address", FORBIDDEN)
def test_special_addresses_are_refused(address: str) -> None:
    assert not may_connect(address)


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_taken(address: str) -> None:
    assert may_connect(address)


URIS = [
    "", "x", "http://", "//example.org/a", "ftp://example.org/a", "file:///etc/passwd", "gopher://example.org/",
    "http://example.org:22/", "http://example.org:8774/", "http://example.org:99999/", "http://example.org:x/",
    "http://user:word@example.org/", "http://example.org@127.0.0.1/", "http://example.org\\@127.0.0.1/",
    "http://exam ple.org/", "http://example.org/a\r\nHost: x", "http://example.org/\x00", "http://ex\u00e4mple.org/",
    "http://[::1", "https://example.org/" + "a" * 2048,
]  # fmt: skip


@pytest.mark.parametrize("uri", URIS)
def test_addresses_that_are_no_plain_ones_are_refused(conf: cfg.ConfigOpts, uri: str) -> None:
    with pytest.raises(ImportRefused, match="does not pass filtering"):
        checked(conf, uri, to(PUBLIC))


def test_the_connection_goes_to_the_address_that_was_checked(conf: cfg.ConfigOpts) -> None:
    place = checked(conf, "https://Example.ORG./a%20b?c=d#e", to(PUBLIC))
    assert place == ("https", "example.org", 443, PUBLIC, "/a%20b?c=d")
    assert checked(conf, "http://example.org", to(PUBLIC)) == ("http", "example.org", 80, PUBLIC, "/")


@pytest.mark.parametrize("address", FORBIDDEN)
def test_a_name_that_leads_to_one_forbidden_address_is_refused(conf: cfg.ConfigOpts, address: str) -> None:
    for addresses in ((address,), (PUBLIC, address)):
        with pytest.raises(ImportRefused):
            checked(conf, "http://example.org/", to(*addresses))


def test_a_name_that_leads_nowhere_is_refused_alike(conf: cfg.ConfigOpts) -> None:
    def fails(host: str, port: int) -> Sequence[str]:
        raise OSError("Name or service not known")

    for resolve in (fails, to()):
        with pytest.raises(ImportRefused) as refused:
            checked(conf, "http://example.org/", resolve)
        assert str(refused.value) == "URI for web-download does not pass filtering: http://example.org/"


def test_hosts_may_be_named(conf: cfg.ConfigOpts) -> None:
    conf.set_override("disallowed_hosts", ["bad.example"], "import_filtering_opts")
    for uri in ("http://bad.example/", "http://BAD.example./"):
        with pytest.raises(ImportRefused):
            checked(conf, uri, to(PUBLIC))
    conf.set_override("allowed_hosts", ["good.example"], "import_filtering_opts")
    checked(conf, "http://good.example/", to(PUBLIC))
    with pytest.raises(ImportRefused):
        checked(conf, "http://other.example/", to(PUBLIC))


def test_private_networks_may_be_allowed(conf: cfg.ConfigOpts) -> None:
    conf.set_override("allowed_networks", ["10.1.2.0/24"], "import_filtering_opts")
    assert checked(conf, "http://mirror/", to("10.1.2.3")).address == "10.1.2.3"
    with pytest.raises(ImportRefused):
        checked(conf, "http://mirror/", to("10.1.3.3"))
    conf.set_override("allowed_networks", ["10.1.2.0/33"], "import_filtering_opts")
    with pytest.raises(errors.InvalidConfiguration, match="allowed_networks"):
        allowed_networks(conf)
