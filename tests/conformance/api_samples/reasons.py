"""Why templates of Nova are not served, or do not match: {folder, or template: reason}. What stands here is no failure."""

_NEUTRON = "Nova's proxy of Network, until 2.35: use the Network API"
_VOLUMES = "there is no volume service"
_MOVES = "servers do not move between hosts yet"
# Folders whose tests do not run.
NOT_SERVED: dict[str, str] = {
    "extension-info": "the list of extensions is the same for each Nova, and no client asks for it",
    "extensions-list-resp.json.tpl": "as extension-info",
    "extensions-list-resp-v21-compatible.json.tpl": "as extension-info",
    "images": "Nova's proxy of Image, until 2.35: use the Image API",
    "os-agents": "Nova has removed it (410)",
    "os-assisted-volume-snapshots": _VOLUMES,
    "os-baremetal-nodes": "Nova's proxy of Bare Metal, until 2.35",
    "os-certificates": "Nova has removed it (410)",
    "os-console-auth-tokens": "console proxies ask the conductor for tokens, not the API",
    "os-evacuate": _MOVES,
    "os-floating-ip-pools": _NEUTRON,
    "os-floating-ips": _NEUTRON,
    "os-hosts": "until 2.42: use os-services and os-hypervisors",
    "os-migrate-server": _MOVES,
    "os-migrations": _MOVES,
    "os-multinic": "until 2.43: use os-interface",
    "os-networks": _NEUTRON,
    "os-quota-sets-noop": "there is one way to count quotas",
    "os-security-groups": _NEUTRON,
    "os-server-shares": "there is no shared file system service",
    "os-snapshots": _VOLUMES,
    "os-tenant-networks": _NEUTRON,
    "os-volume_attachments": _VOLUMES,
    "os-volumes": _VOLUMES,
    "server-migrations": _MOVES,
}
_FAKE = "the sizes and the CPU of Nova's fake hypervisor"
# Of folders that are served: templates that begin like this, where only values differ.
EXPLAINED: dict[str, str] = {
    "os-console-output/": "the text of Nova's fake console",
    "os-hypervisors/": _FAKE,
    "os-server-password/": "Nova's test pretends a password that a guest has left",
    "os-server-topology/": "Nova's test pretends a topology",
    "os-simple-tenant-usage/": "Nova's test sets the clock on by an hour",
    "os-instance-usage-audit-log/": "Nova's test pretends audits of four hosts",
    "os-services/": "Nova's test pretends services",
}
# Whatever the template: texts of failures.
ALWAYS: dict[str, str] = {
    "trusted_image_certificates": "images are not verified by certificates",
    "booting from a volume is not served": _VOLUMES,
    "['servers_links']": "the link to the next page is left out where there is no next page; Nova's page may be empty",
}
