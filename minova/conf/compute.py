"""Options of minova-compute, in Nova's group [DEFAULT], where Nova has them all."""

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
        "preallocate_images",
        default="none",
        choices=["none", "space"],
        help="space: new root, ephemeral and swap disks take all their space at once (fallocate), and a build fails where it is not "
        "free. Their file system must be able to.",
    ),
    cfg.IntOpt(
        "max_local_block_devices",
        default=3,
        min=-1,
        help="Local disks of a new server, its root disk among them; -1: no limit. Read by minova-api.",
    ),
    cfg.StrOpt(
        "pointer_model",
        default="usbtablet",
        choices=["ps2mouse", "usbtablet"],
        help="Pointer of guests with a screen whose image names none (hw_pointer_model, hw_input_bus). The pointer of a ps2mouse is beside "
        "the one in the browser. It takes effect at the next hard reboot of a guest.",
    ),
    cfg.StrOpt(
        "config_drive_format",
        default="iso9660",
        choices=["iso9660", "vfat"],
        help="File system of new config drives: iso9660 is a CD of the guest, vfat a disk (and needs mkfs.vfat and mcopy).",
    ),
    cfg.BoolOpt(
        "force_config_drive",
        default=False,
        mutable=True,
        help="Every new server gets a config drive. Read by minova-api; Nova's computes read it.",
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
    cfg.BoolOpt(
        "resume_guests_state_on_host_boot",
        default=False,
        help="At the start of minova-compute, run guests again that are off and ran when they were last seen, as after a reboot of "
        "the host. Otherwise their servers become SHUTOFF. A guest that shut itself down while minova-compute was away runs again, too.",
    ),
    cfg.BoolOpt(
        "allow_resize_to_same_host",
        default=False,
        mutable=True,
        help="A resize may leave the server on its host. Read by minova-conductor.",
    ),
    cfg.IntOpt(
        "max_concurrent_live_migrations",
        default=1,
        min=0,
        mutable=True,
        help="Live migrations in which one host takes part at once, as source or as destination; further ones wait, first come first "
        "served. 0: any number. Read by minova-conductor.",
    ),
    cfg.IntOpt(
        "resize_confirm_window",
        default=0,
        min=0,
        mutable=True,
        help="Seconds after which a finished resize or migration is confirmed without its owner; 0: never. Read by minova-conductor.",
    ),
    cfg.BoolOpt(
        "resume_guests_when_disk_has_space",
        default=True,
        mutable=True,
        help="Let guests go on that QEMU has paused because the file system of their disks was full, once there is space again.",
    ),
    cfg.IntOpt(
        "max_concurrent_guest_starts",
        default=4,
        min=0,
        help="Guests that start at the same time by resume_guests_state_on_host_boot; 0 is unlimited. minova-compute serves requests "
        "meanwhile.",
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
        "say otherwise with its property os_shutdown_timeout. 0: it is destroyed at once. [conductor] action_timeout is above both.",
    ),
    cfg.IntOpt(
        "reclaim_instance_interval",
        default=0,
        min=0,
        help="Seconds for which a deleted server can be restored: it is SOFT_DELETED, off, and keeps its place. 0: it is deleted "
        "at once. Read by minova-conductor, again without a restart.",
        mutable=True,
    ),
    cfg.IntOpt(
        "shelved_offload_time",
        default=0,
        min=-1,
        help="Seconds for which a shelved server stays on its host, from which it starts again soon. 0: it leaves its host as soon as "
        "it is shelved. -1: it stays until shelveOffload is requested. Read by minova-conductor, again without a restart.",
        mutable=True,
    ),
    cfg.IntOpt(
        "shelved_poll_interval",
        default=3600,
        min=-1,
        help="Seconds between looks for shelved servers whose shelved_offload_time is over. 0: 60 seconds. -1: never. "
        "Read by minova-conductor.",
    ),
    cfg.ListOpt(
        "non_inheritable_image_properties",
        default=["cache_in_nova", "bittorrent"],
        help="Properties of a server's image that images made of the server do not get. Read by minova-api.",
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
    cfg.IntOpt(
        "vif_plugging_timeout",
        default=300,
        min=0,
        help="Seconds that a compute waits for Neutron to wire the interfaces of a new server, before the guest runs. 0: it does not wait.",
    ),
    cfg.BoolOpt(
        "vif_plugging_is_fatal",
        default=True,
        help="Fail a server whose interfaces are not wired in time. Otherwise its guest runs without them. Read by minova-compute.",
    ),
    cfg.IntOpt(
        "heal_instance_info_cache_interval",
        default=60,
        help="Seconds between two looks of a conductor at what Neutron knows of servers' interfaces, of those that were looked at the longest "
        "time ago. 0 or less: it does not look by itself, and changes come with events of Neutron alone.",
    ),
]
