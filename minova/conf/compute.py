"""Options of minova-compute, in Nova's group [DEFAULT]."""

from oslo_config import cfg, types

GROUP = None

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "compute_driver",
        default="libvirt",
        choices=["libvirt", "fake", "libvirt.LibvirtDriver", "fake.FakeDriver"],
        help="Hypervisor driver, also as Nova names it. `fake` keeps books and runs nothing: for tests.",
    ),
    cfg.StrOpt(
        "instances_path",
        default="$state_path/instances",
        help="Folder of the instances' disks and of the image cache. Hosts may share it: each removes only disks of its own.",
    ),
    cfg.StrOpt(
        "image_cache_subdirectory_name",
        default="_base",
        deprecated_group="image_cache",
        help="Folder of cached base images below instances_path.",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=0,
        help="Seconds between audits, stretched by the conductor when there are many hosts; 0 means 60, negative switches them off.",
    ),
    cfg.ListOpt(
        "compute_monitors",
        default=[],
        help="Monitors that give the node's metrics with each audit: cpu.virt_driver (frequency, times and percentages of the CPUs). Unset: none.",
    ),
    cfg.IntOpt(
        "sync_power_state_interval",
        default=600,
        help="Seconds between comparisons of all power states with the hypervisor's; 0 means 60, negative switches them off. Each "
        "audit compares those of its node, too.",
    ),
    cfg.StrOpt(
        "running_deleted_instance_action",
        default="reap",
        choices=["noop", "log", "shutdown", "reap"],
        mutable=True,
        help="What to do with a domain whose instance was deleted while this host could not be asked: nothing, say so in the log, "
        "stop it, or remove it with its disks.",
    ),
    cfg.IntOpt(
        "running_deleted_instance_poll_interval",
        default=1800,
        min=0,
        help="Seconds between looks for domains of deleted instances; 0 leaves them alone. With reap each audit removes them, too.",
    ),
    cfg.IntOpt(
        "running_deleted_instance_timeout",
        default=0,
        min=0,
        mutable=True,
        help="Seconds that an instance must have been deleted before running_deleted_instance_action is taken.",
    ),
    cfg.IntOpt(
        "instance_build_timeout",
        default=0,
        min=0,
        help="Seconds after which an instance that still builds goes to ERROR, however many hosts are left to try; 0: never. The "
        "conductors look after it; each attempt on a host has [conductor] build_timeout of its own.",
    ),
    cfg.IntOpt(
        "shutdown_timeout",
        default=60,
        min=0,
        help="Seconds that a guest has to shut itself down when its server is stopped; then its domain is destroyed. An image may "
        "say otherwise with its property os_shutdown_timeout. 0: it is destroyed at once.",
    ),
    cfg.IntOpt(
        "max_concurrent_builds",
        default=10,
        min=0,
        help="Builds at the same time on this host; 0 is unlimited.",
    ),
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        mutable=True,
        help="Memory (MB) kept for the host itself.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        default=0,
        min=0,
        mutable=True,
        help="Disk (MB) kept for the host itself.",
    ),
    cfg.MultiOpt(
        "reserved_huge_pages",
        item_type=types.Dict(),
        help="Pages kept from guests, such as node:0,size:2048,count:64 (KiB, or with a unit). May be given more than once.",
    ),
    cfg.IntOpt("reserved_host_cpus", default=0, min=0, mutable=True, help="CPUs kept for the host itself."),
    cfg.FloatOpt(
        "cpu_allocation_ratio",
        min=0.0,
        mutable=True,
        help=(
            "Virtual to physical CPUs, at each audit of the node. Unset: a new node gets initial_cpu_allocation_ratio, "
            "and what is set through Placement is kept."
        ),
    ),
    cfg.FloatOpt(
        "ram_allocation_ratio",
        min=0.0,
        mutable=True,
        help=(
            "Virtual to physical memory, at each audit of the node. Unset: a new node gets initial_ram_allocation_ratio, "
            "and what is set through Placement is kept."
        ),
    ),
    cfg.FloatOpt(
        "disk_allocation_ratio",
        min=0.0,
        mutable=True,
        help=(
            "Virtual to physical disk, at each audit of the node. Unset: a new node gets initial_disk_allocation_ratio, "
            "and what is set through Placement is kept."
        ),
    ),
    cfg.FloatOpt(
        "initial_cpu_allocation_ratio",
        default=4.0,
        min=0.0,
        mutable=True,
        help="cpu_allocation_ratio of a new node (Nova's since 27.0.0).",
    ),
    cfg.FloatOpt(
        "initial_ram_allocation_ratio",
        default=1.0,
        min=0.0,
        mutable=True,
        help="ram_allocation_ratio of a new node.",
    ),
    cfg.FloatOpt(
        "initial_disk_allocation_ratio",
        default=1.0,
        min=0.0,
        mutable=True,
        help="disk_allocation_ratio of a new node.",
    ),
    cfg.StrOpt(
        "vcpu_pin_set", help="CPUs for guests, such as 0-3,^2,8; unset: all. The old way: see [compute] cpu_shared_set."
    ),
    cfg.IntOpt("fake_vcpus", default=32, min=0, help="vCPUs of the fake driver's node."),
    cfg.IntOpt(
        "fake_memory_mb",
        default=65536,
        min=0,
        help="Memory (MB) of the fake driver's node.",
    ),
    cfg.IntOpt(
        "fake_local_gb",
        default=1000,
        min=0,
        help="Disk (GB) of the fake driver's node.",
    ),
    cfg.ListOpt(
        "fake_nodes",
        default=[],
        help="Nodes of the fake driver; unset: one, named as the host.",
    ),
    cfg.BoolOpt(
        "fake_persistent",
        default=True,
        help="Keep the fake driver's domains in a file below instances_path, so that they outlive the process.",
    ),
]
