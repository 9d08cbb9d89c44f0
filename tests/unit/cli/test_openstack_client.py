"""`minova` takes what the installed `openstack` takes, but for what stands here with its reason.

Compared are the commands of servers, flavors, hosts, groups, keys, usage, quotas and images, each with its options, and the
options of the commands of networks that both have. A release of
OpenStack's client that adds an option fails here, and so does an option that minova loses: serve it, or write down why not.
"""

import argparse
import importlib
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from unittest import mock

import pytest

from minova.cli.registry import COMMANDS

GROUPS = ("openstack.compute.v2", "openstack.image.v2", "openstack.common")
# Of this group only the commands that minova has: Neutron has many more.
NETWORK = "openstack.network.v2"
# Of openstack.common: the other commands are of Keystone, Cinder or the client itself.
COMMON = ("availability zone", "quota")

NO_VOLUMES = "minova has no volumes"
NO_SHARES = "minova has no shares: there is no Manila"
NO_FLOATING = "minova's networks have no floating addresses"
NO_SCOPES = "minova's networks have no address scopes"
CACHE = "images are cached by Glance's own commands; minova's computes fetch and expire them by themselves"
METADEF = "minova has no catalogue of metadata definitions"
STORES = "there is one store of images"
NO_DNS = "no DNS service outside knows guests"
NO_EXTERNAL = "no network is external"
NO_GUEST_VLANS = "guests have no VLANs of their own, and networks no PVLANs"
NO_QOS = "minova's networks have no QoS policies"
NO_ROUTERS = "minova's networks have no routers"
NO_SEGMENTS = "minova's networks have no segments"
HARDWARE = "it describes hardware that minova's networks do not have, such as SR-IOV"
AGENTS = "Nova has removed os-agents"
HOSTS = "Nova has removed os-hosts: `hypervisor ...` and `service ...`"

# Commands that minova has not.
NO_COMMAND: Mapping[str, str] = {
    "cached image clear": CACHE,
    "cached image delete": CACHE,
    "cached image list": CACHE,
    "cached image queue": CACHE,
    "compute agent create": AGENTS,
    "compute agent delete": AGENTS,
    "compute agent list": AGENTS,
    "compute agent set": AGENTS,
    "console connection show": "only console proxies may see to where a token connects",
    "host list": HOSTS,
    "host set": HOSTS,
    "host show": HOSTS,
    "image task list": "images are checked at once: there are no tasks",
    "image task show": "images are checked at once: there are no tasks",
    "image stores list": STORES,
    **dict.fromkeys(
        [
            "image metadef namespace create",
            "image metadef namespace delete",
            "image metadef namespace list",
            "image metadef namespace set",
            "image metadef namespace show",
            "image metadef namespace unset",
            "image metadef object create",
            "image metadef object delete",
            "image metadef object list",
            "image metadef object property show",
            "image metadef object show",
            "image metadef object update",
            "image metadef property create",
            "image metadef property delete",
            "image metadef property list",
            "image metadef property set",
            "image metadef property show",
            "image metadef resource type association create",
            "image metadef resource type association delete",
            "image metadef resource type association list",
            "image metadef resource type list",
        ],
        METADEF,
    ),
    **dict.fromkeys(
        ["server migrate confirm", "server migrate revert"], "`server resize confirm` and `revert` do the same"
    ),
    "server add floating ip": NO_FLOATING,
    "server remove floating ip": NO_FLOATING,
    "server add share": NO_SHARES,
    "server remove share": NO_SHARES,
    "server share list": NO_SHARES,
    "server share show": NO_SHARES,
    "server add volume": NO_VOLUMES,
    "server remove volume": NO_VOLUMES,
    "server volume list": NO_VOLUMES,
    "server volume set": NO_VOLUMES,
    "server volume update": NO_VOLUMES,
}

# Options of many commands.
OF_EVERY_COMMAND: Mapping[str, str] = {
    "--extra-property": "it sends attributes that the client does not know, and the Network API refuses those"
}
# Of ports.
NO_HARDWARE_OF_PORTS: Mapping[str, str] = {
    **dict.fromkeys(
        ["--disable-uplink-status-propagation", "--enable-uplink-status-propagation", "--not-trusted"]
        + ["--numa-policy-legacy", "--numa-policy-preferred", "--numa-policy-required", "--numa-policy-socket"]
        + ["--trusted", "--vnic-type"],
        HARDWARE,
    ),
    **dict.fromkeys(["--dns-domain", "--dns-name"], NO_DNS),
    "--hint": "they are of Open vSwitch",
    **dict.fromkeys(["--pvlan-community", "--pvlan-type"], NO_GUEST_VLANS),
    "--qos-policy": NO_QOS,
}
# Options that minova's commands of networks have not.
NO_NETWORK_OPTION: Mapping[str, Mapping[str, str]] = {
    "subnet pool create": {"--address-scope": NO_SCOPES},
    "subnet pool list": {"--address-scope": NO_SCOPES},
    "subnet pool set": {"--address-scope": NO_SCOPES, "--no-address-scope": NO_SCOPES},
    "network create": {
        "--availability-zone-hint": "networks are in all availability zones",
        "--dns-domain": NO_DNS,
        "--qos-policy": NO_QOS,
        **dict.fromkeys(["--default", "--no-default"], NO_EXTERNAL),
        **dict.fromkeys(
            ["--no-pvlan", "--no-qinq-vlan", "--no-transparent-vlan", "--pvlan", "--qinq-vlan", "--transparent-vlan"],
            NO_GUEST_VLANS,
        ),
    },
    "network list": {
        "--agent": "agents are computes, which know the networks of their guests alone",
        **dict.fromkeys(["--no-pvlan", "--pvlan"], NO_GUEST_VLANS),
    },
    "network set": {
        "--dns-domain": NO_DNS,
        **dict.fromkeys(["--default", "--no-default"], NO_EXTERNAL),
        **dict.fromkeys(["--no-pvlan", "--pvlan"], NO_GUEST_VLANS),
        **dict.fromkeys(["--no-qos-policy", "--qos-policy"], NO_QOS),
        **dict.fromkeys(
            ["--provider-network-type", "--provider-physical-network", "--provider-segment"],
            "they are chosen when a network is created",
        ),
    },
    "port create": {**NO_HARDWARE_OF_PORTS, "--device-profile": HARDWARE, "--hardware-offload-type": HARDWARE},
    "port list": {
        "--router": NO_ROUTERS,
        **dict.fromkeys(["--no-pvlan", "--pvlan", "--pvlan-community", "--pvlan-type"], NO_GUEST_VLANS),
    },
    "port set": {
        **NO_HARDWARE_OF_PORTS,
        "--data-plane-status": "no service outside reports it",
    },
    "port unset": {
        "--data-plane-status": "no service outside reports it",
        "--hints": "they are of Open vSwitch",
        "--numa-policy": HARDWARE,
        "--pvlan-community": NO_GUEST_VLANS,
        "--qos-policy": NO_QOS,
    },
    "subnet create": {
        **dict.fromkeys(["--dns-publish-fixed-ip", "--no-dns-publish-fixed-ip"], NO_DNS),
        "--network-segment": NO_SEGMENTS,
        "--use-prefix-delegation": "no router delegates prefixes",
    },
    "subnet set": {
        **dict.fromkeys(["--dns-publish-fixed-ip", "--no-dns-publish-fixed-ip"], NO_DNS),
        **dict.fromkeys(["--leak-routes", "--no-leak-routes"], "there is no BGP"),
        "--network-segment": NO_SEGMENTS,
    },
}


# Options that minova's commands have not.
NO_OPTION: Mapping[str, Mapping[str, str]] = {
    "server rescue": {"--password": "no guest takes it"},
    "availability zone list": {"--network": "networks have no zones", "--volume": NO_VOLUMES, "--share": NO_SHARES},
    "server evacuate": {"--shared-storage": "the new host finds out itself"},
    "quota delete": {"--volume": NO_VOLUMES},
    "quota list": {"--volume": NO_VOLUMES},
    "quota set": {
        "--check-limit": "the client's own hidden one: limits are checked without --force",
        "--class": "there is one class: --default",
        "--floating-ips": NO_FLOATING,
        **dict.fromkeys(["--rbac-policies", "--router-routes", "--routers"], "minova has none of them"),
        **dict.fromkeys(
            ["--backup-gigabytes", "--backups", "--gigabytes", "--groups", "--per-volume-gigabytes", "--snapshots"]
            + ["--volume-type", "--volumes"],
            NO_VOLUMES,
        ),
    },
    "quota show": {"--volume": NO_VOLUMES},
    "image create": {
        **dict.fromkeys(["--checksum", "--copy-from", "--location", "--size"], "OpenStack's refuse them with Image API 2"),
        "--force": NO_VOLUMES,
        **dict.fromkeys(["--sign-cert-id", "--sign-key-path"], "images are not signed"),
        "--import": "`image stage` and `image import`",
        "--progress": "terminals show it always",
        "--store": STORES,
        "--volume": NO_VOLUMES,
    },
    "image import": {
        **dict.fromkeys(["--all-stores", "--allow-failure", "--disallow-failure", "--store"], STORES),
        **dict.fromkeys(
            ["--remote-image", "--remote-region", "--remote-service-interface"], "no other Glance is known to minova"
        ),
    },
    "image stage": {"--progress": "terminals show it always", "--size": "it is that of the file"},
    "image set": {"--visibility": "OpenStack's refuses it: --public, --private, --community and --shared"},
    "server resize": {"--confirm": "`server resize confirm`", "--revert": "`server resize revert`"},
    "server migrate": dict.fromkeys(
        ["--disk-overcommit", "--no-disk-overcommit"], "the scheduler counts disks; the API takes them and ignores them"
    ),
    "server ssh": dict.fromkeys(["--option", "-o", "-v"], "ssh's own options follow --"),
    "image delete": {"--store": STORES},
    "image save": {"--store-preference": STORES},
    **NO_NETWORK_OPTION,
}  # fmt: skip
# Options that take a value in one of them alone.
OTHER_FORM: Mapping[str, Mapping[str, str]] = {
    "server create": {
        "--config-drive": "OpenStack's is deprecated and takes True: --use-config-drive is the same in both"
    }
}
# Of the library under both: how a table looks, and which columns.
OF_CLIFF = frozenset(
    ["-h", "--help", "-f", "--format", "-c", "--column", "--quote", "--noindent", "--max-width", "--fit-width"]
    + ["--print-empty", "--sort-column", "--sort-ascending", "--sort-descending", "--prefix", "--variable"]
)


def options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {name: action for action in parser._actions for name in action.option_strings if name not in OF_CLIFF}


@cache
def openstack() -> dict[str, dict[str, argparse.Action]]:
    """The options of each command of OpenStack's client."""
    options_by_command = {}
    for group in (*GROUPS, NETWORK):
        for entry in metadata.entry_points(group=group):
            name = entry.name.replace("_", " ")
            is_ours = name in COMMANDS if group == NETWORK else group != "openstack.common" or name.startswith(COMMON)
            if is_ours and entry.dist is not None and entry.dist.name == "python-openstackclient":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the client's own
                    # Some options depend on what the cloud has: it has everything.
                    options_by_command[name] = options(entry.load()(mock.MagicMock(), None).get_parser(name))
    return options_by_command


@cache
def minova() -> dict[str, dict[str, argparse.Action]]:
    options_by_command = {}
    for name, path in COMMANDS.items():
        module, _, factory = path.partition(":")
        command = getattr(importlib.import_module(module), factory)(mock.MagicMock(), None)
        options_by_command[name] = options(command.get_parser(name))
    return options_by_command


def test_every_command_of_openstack_is_served_or_has_a_reason() -> None:
    assert openstack().keys() - minova().keys() - NO_COMMAND.keys() == set()


def test_every_option_of_openstack_is_served_or_has_a_reason() -> None:
    lacking = {
        name: sorted(theirs.keys() - minova()[name].keys() - NO_OPTION.get(name, {}).keys() - OF_EVERY_COMMAND.keys())
        for name, theirs in openstack().items()
        if name in minova()
    }
    assert {name: missing for name, missing in lacking.items() if missing} == {}


def test_what_is_served_has_no_reason_why_it_is_not() -> None:
    served = minova()
    stale = {name for name in NO_COMMAND if name in served}
    stale |= {
        f"{name} {option}"
        for name, reasons in NO_OPTION.items()
        for option, reason in reasons.items()
        if option in served.get(name, {})
    }
    assert stale == set()


def test_an_option_takes_a_value_where_that_of_openstack_does() -> None:
    other = {
        (name, option)
        for name, theirs in openstack().items()
        for option, action in theirs.items()
        if (own := minova().get(name, {}).get(option)) is not None and (own.nargs == 0) != (action.nargs == 0)
    }
    assert other == {(name, option) for name, reasons in OTHER_FORM.items() for option in reasons}


@pytest.mark.parametrize("words", ["server create", "server list", "flavor list", "image create", "quota set"])
def test_the_comparison_sees_commands_and_options(words: str) -> None:
    """Or nothing above could fail."""
    assert len(openstack()[words]) > 3
    assert len(minova()[words].keys() & openstack()[words].keys()) > 1
