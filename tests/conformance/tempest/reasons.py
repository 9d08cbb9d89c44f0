"""Why tests of Tempest are skipped, or fail. What stands here is no failure of the run."""

_VOLUMES = "there is no volume service"
_ROUTERS = "there are no routers and no floating addresses"
_GUESTS = "the fake driver's guests have no login"
_USERS = "quotas are of projects"
_NEUTRON = "as with any Nova beside Neutron"
# {a text of what Tempest says: reason}
SKIPS: dict[str, str] = {
    "Cinder is not available": _VOLUMES,
    "olume service": _VOLUMES,
    "Volume-backed live migration": _VOLUMES,
    "trunk is not enabled": "ports have no trunks",
    "vTPM live migration is not enabled": "Tempest looks for the keys of TPMs in Barbican",
    "Encrypted volume attach is not supported": _VOLUMES,
    # Of the microversions of volumes.
    "The microversion range[3.": _VOLUMES,
    # Of the microversions of Placement: bandwidth of ports.
    "The microversion range[1.29 ": "ports have no bandwidth",
    "Floating ips are not available": _ROUTERS,
    "public_network_id": _ROUTERS,
    "auto-allocated-topology extension is not available": _ROUTERS,
    # Before "validation", which it says, too.
    "certified_image_ref": "images are not verified by certificates",
    "alidation": _GUESTS,
    "SPICE console feature is disabled": "consoles are VNC and serial",
    "swift is not available": "there is no object storage",
    "Horizon support is required": "there is no dashboard",
    "Neutron": _NEUTRON,
    "nova-network is not available": _NEUTRON,
    "unified limits": "limits are minova's, and not Keystone's",
    "Skipped until bug": "a bug that Tempest names",
}
# (a part of the test's name, a text of its failure, reason)
FAILURES: tuple[tuple[str, str, str], ...] = (
    # `int(data[i])` of a text, and bytes added to a text: the test passes on no Python 3.
    (
        "test_live_migration_serial_console",
        "'test_live_migration_serial_console' not in ''",
        "a bug of Tempest: it sends to its WebSocket a text, of which that wants numbers",
    ),
    ("quotas.", "Quotas of users are not served", _USERS),
    (
        "test_inject_network_info",
        "Not served: injectNetworkInfo",
        "no guest takes it: Nova with libvirt takes the request and does nothing",
    ),
)
