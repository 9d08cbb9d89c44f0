"""Options of quotas: the limits of a project that has none of its own. Names and defaults are Nova's, Neutron's and Glance's."""

from oslo_config import cfg

GROUP = "quota"

_COUNTED = (
    ("instances", 10, "Servers of a project."),
    ("cores", 20, "Virtual CPUs of a project's servers."),
    ("ram", 50 * 1024, "MB of memory of a project's servers."),
    ("metadata_items", 128, "Metadata items of a server."),
    ("injected_files", 5, "Files injected into a server."),
    ("injected_file_content_bytes", 10 * 1024, "Bytes of an injected file."),
    ("injected_file_path_length", 255, "Bytes of the path of an injected file."),
    ("key_pairs", 100, "Key pairs of a user."),
    ("server_groups", 10, "Server groups of a project."),
    ("server_group_members", 10, "Servers of a server group."),
    ("networks", 100, "Networks of a project."),
    ("subnets", 100, "Subnets of a project."),
    ("ports", 500, "Ports of a project."),
    ("security_group", 10, "Security groups of a project."),
    ("security_group_rule", 100, "Rules of all security groups of a project."),
    ("address_group", 100, "Address groups of a project."),
    ("subnetpool", 100, "Subnet pools of a project."),
    ("image_count_total", -1, "Images of a project."),
    ("image_size_total", -1, "MB (2**20 bytes) of the data of a project's images."),
)

OPTS: list[cfg.Opt] = [
    *(
        cfg.IntOpt(
            name, default=default, min=-1, help=f"{text} -1: no limit. The quota API sets limits that replace this one."
        )
        for name, default, text in _COUNTED
    ),
    cfg.IntOpt(
        "recount_interval",
        default=600,
        min=0,
        help="Seconds between two audits of what quotas count. They put right what services of release 0.1.0 did not count. 0: none.",
    ),
]
