"""Why templates of Nova are not served, or do not match: {folder, or template: reason}. What stands here is no failure."""

_NEUTRON = "Nova's proxy of Network, until 2.35: use the Network API"
_VOLUMES = "there is no volume service"
_CELLS = "there are no cells, of which one could be down"
_CERTIFICATES = "images are not verified by certificates"
_FIRST_API = "Compute v2.0 is not served; /v2 is the Image API"
_MIGRATIONS = "Nova's tests pretend migrations"
_DRIVER = "as Nova's libvirt driver; Nova's test pretends another one"
_PORT = "Nova's test pretends a port"
_CONSOLES = "consoles are VNC and serial"
_EXTENSIONS = "what is served stands there, and nothing else"
# Folders whose tests do not run.
NOT_SERVED: dict[str, str] = {
    "extensions-list-resp.json.tpl": "an older copy of extension-info",
    "extensions-list-resp-v21-compatible.json.tpl": "an older copy of extension-info",
    "os-agents": "Nova has removed it (410)",
    "os-assisted-volume-snapshots": _VOLUMES,
    "os-baremetal-nodes": "Nova's proxy of Bare Metal, until 2.35",
    "os-certificates": "Nova has removed it (410)",
    "os-console-auth-tokens": "console proxies ask the conductor for tokens, not the API",
    "os-floating-ip-pools": _NEUTRON,
    "os-floating-ips": _NEUTRON,
    "os-quota-sets-noop": "there is one way to count quotas",
    "os-server-shares": "there is no shared file system service",
    "os-snapshots": _VOLUMES,
    "os-volume_attachments": _VOLUMES,
    "os-volumes": _VOLUMES,
}
# The text of another value of a field that is there.
VALUES = "Values do not match"
_LISTS = "list items"
# (templates, a text of each of their failures, reason): a missing field or another status is never explained
# for a whole folder, unless Nova's test pretends what the folder is about.
EXPLAINED: tuple[tuple[str, str, str], ...] = (
    ("os-attach-interfaces/*", "ce531f90-199f-48c0-816c-13e38010b442", _PORT),
    ("os-attach-interfaces/*", VALUES, _PORT),
    ("os-migrations/*", "", _MIGRATIONS),
    ("server-migrations/*", "409", _MIGRATIONS),
    ("os-console-output/*", VALUES, "the text of Nova's fake console"),
    ("os-hypervisors/*-with-servers-*", "in template:", "Nova's test pretends servers"),
    ("os-hypervisors/v2.88/*", "Expected None", "Nova's fake hypervisor does not say how long it runs"),
    ("os-hypervisors/*", VALUES, "what Nova's fake hypervisor uses"),
    ("os-remote-consoles/*-resp.json.tpl", VALUES, "tokens are no UUIDs, and one proxy serves both kinds"),
    ("os-remote-consoles/get-vnc-console-post-req*", "409 != 200", "Nova's test pretends a state of the server"),
    ("images/image-get-resp*", VALUES, "the day on which Nova's stand-in for Glance made its images"),
    ("images/images-*", _LISTS, "the day on which Nova's stand-in for Glance made its images, and its address"),
    ("extension-info/extensions-get-resp.json.tpl", "404 instead of 200", _EXTENSIONS),
    ("extension-info/extensions-list-resp.json.tpl", _LISTS, _EXTENSIONS),
    ("servers/servers-list-status-resp*", VALUES, "Nova's link to the next page forgets one of two states"),
    ("os-hosts/host-get-*", "501 instead of 200", _DRIVER),
    ("os-hosts/host-put-maintenance*", "501", _DRIVER),
    ("os-hosts/hosts-list-resp*", _LISTS, "Nova's template names another zone than its test sets"),
    ("os-security-groups/*", "", "Nova's test pretends security groups"),
    ("os-rescue/*", VALUES, "Nova's fake hypervisor does not start the rescue system"),
    ("os-server-diagnostics/*", "", "what Nova's fake guest uses"),
    ("os-server-password/*", VALUES, "Nova's test pretends a password that a guest has left"),
    ("os-server-topology/*", _LISTS, "Nova's test pretends a topology"),
    ("os-services/*", _LISTS, "Nova's test pretends services"),
    ("os-services/*", VALUES, "Nova's test pretends services"),
    ("versions/v2-version*", "", _FIRST_API),
    ("versions/versions*", "", _FIRST_API),
    ("servers/v2.69/*", "", _CELLS),
    ("servers/v2.71/server-get-down-cell*", "", _CELLS),
    ("os-simple-tenant-usage/v2.40/*", "", "Nova's test numbers its servers, by which pages are sorted"),
    ("os-simple-tenant-usage/*", VALUES, "Nova's test sets the clock on by an hour"),
)
# Templates that begin so, to which no test comes, because what it does before is refused.
NOT_REACHED: dict[str, str] = {
    **dict.fromkeys(
        (
            "flavor-manage/v2.61/",
            "os-admin-actions/admin-actions-reset-state.",
            "os-hypervisors/v2.53/hypervisors-without-servers",
            "os-hypervisors/v2.88/hypervisors-without-servers",
            "os-instance-actions/v2.66/instance-action-get-non-admin",
            "os-shelve/v2.91/os-unshelve-az-host",
            "servers/attach-interfaces-",
            "servers/v2.96/server-details-",
            "servers/v2.96/server-list-",
            "servers/v2.98/server-create-",
            "servers/v2.98/server-details-",
            "servers/v2.98/server-list-",
            "servers/v2.100/server-list-",
        ),
        "no test of Nova's uses it",
    ),
    "extension-info/extensions-list-resp-v21-compatible": _FIRST_API,
    "servers/v2.63/": _CERTIFICATES,
    "servers/v2.66/": _CERTIFICATES,
    "os-migrations/": _MIGRATIONS,
    "server-migrations/": _MIGRATIONS,
    "os-multinic/": "Nova's test boots with a port of its stand-in for Neutron",
    "os-instance-usage-audit-log/": "Nova's test pretends audits of four hosts",
}
# Whatever the template: texts of failures.
ALWAYS: dict[str, str] = {
    "trusted_image_certificates": _CERTIFICATES,
    "booting from a volume is not served": _VOLUMES,
    "Quotas of users are not served": "quotas are of projects",
    "Unavailable console type webmks": _CONSOLES,
    "Unavailable console type spice": _CONSOLES,
    "Not served: addFloatingIp": _NEUTRON,
    "Not served: removeFloatingIp": _NEUTRON,
    "Not served: injectNetworkInfo": "no guest takes it: Nova with libvirt takes the request and does nothing",
    "does not support preserving ephemeral partitions": _DRIVER,
    "-----BEGIN PRIVATE KEY-----": "the private key is in PKCS #8, as OpenSSL 3 writes it for Nova",
}
