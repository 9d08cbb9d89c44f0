"""Options of the libvirt driver."""

from oslo_config import cfg

GROUP = "libvirt"
SYSTEM_URI = "qemu:///system"
_URIS = {"test": "test:///default"}

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "connection_uri", default="", help="libvirt URI; empty: qemu:///system, or test:///default with virt_type test."
    ),
    cfg.StrOpt(
        "virt_type",
        default="kvm",
        choices=["kvm", "qemu", "test"],
        help="Domain type. minova does not guess it, because /dev/kvm may exist and not work. `test` is for "
        "test:///default.",
    ),
    cfg.StrOpt(
        "cpu_mode",
        choices=["host-model", "host-passthrough", "custom", "none"],
        help="CPU of the guests; unset: host-model with kvm and qemu.",
    ),
    cfg.ListOpt(
        "cpu_models",
        default=[],
        help="With cpu_mode custom: the models of the guests, the preferred first. A guest gets the first one that has all features that its "
        "flavor and image require (trait:HW_CPU_X86_...=required).",
    ),
    cfg.ListOpt(
        "cpu_model_extra_flags",
        default=[],
        help="Features of the CPU that guests get in addition to those of its model, such as pcid or +pcid, or do not get, such as -mtrr. "
        "With cpu_mode none the compute does not start.",
    ),
    cfg.ListOpt(
        "hw_machine_type",
        default=[],
        help="Machine types by architecture, such as x86_64=q35; unset: libvirt's default.",
    ),
    cfg.StrOpt(
        "images_type",
        default="default",
        choices=["default", "qcow2", "raw"],
        help="Format of new root disks: qcow2 (the default) is an overlay of the cached image, raw is a copy of it. Existing disks keep "
        "their format.",
    ),
    cfg.StrOpt(
        "rescue_image_id",
        help="ID of the image with which servers are rescued if the request names none. All users must see it. Unset: the server's own "
        "image, and the disk to rescue is attached later (rescue_disk_delay). Read by minova-api.",
    ),
    cfg.IntOpt(
        "rescue_disk_delay",
        default=120,
        min=0,
        mutable=True,
        help="Seconds after which the disk to rescue is attached to a guest that was rescued with its own image; earlier if its agent is "
        "connected. Both disks have the same UUIDs, so a system that has both when it boots may use the wrong one.",
    ),
    cfg.StrOpt(
        "rescue_kernel_id",
        help="ID of the image with the kernel from which rescued servers boot; unset: that of the server's own image, if it has one. Read "
        "by minova-api.",
    ),
    cfg.StrOpt(
        "rescue_ramdisk_id",
        help="ID of the image with the ramdisk for that kernel; unset: that of the server's own image, if it has one. Read by minova-api.",
    ),
    cfg.ListOpt(
        "disk_cachemodes",
        default=[],
        help="Cache modes by disk type, such as file=writeback; unset: none where the file system has O_DIRECT, "
        "else writeback.",
    ),
    cfg.StrOpt(
        "cdrom_bus",
        choices=["scsi", "sata", "usb"],
        help="Bus of CD drives, such as config drives, of guests whose image has no hw_cdrom_bus; unset: as in Nova, ide, or sata with machine "
        "q35. Kernels that are built for clouds often have no driver for SATA. They have one for scsi, which is virtio-scsi if the image "
        "has no hw_scsi_model. It takes effect at the next hard reboot of a guest.",
    ),
    cfg.StrOpt(
        "hw_disk_discard",
        choices=["ignore", "unmap"],
        help="Whether space that a guest gives back (TRIM) is freed on the host; unset: QEMU's default, ignore.",
    ),
    cfg.IntOpt(
        "rx_queue_size",
        choices=[256, 512, 1024],
        help="Packets that a receive queue of a virtio interface holds; unset: QEMU's default, 256.",
    ),
    cfg.IntOpt(
        "tx_queue_size",
        choices=[256, 512, 1024],
        help="Packets that a transmit queue of a virtio interface holds; unset: QEMU's default, 256.",
    ),
    cfg.StrOpt(
        "sysinfo_serial",
        default="unique",
        choices=["none", "os", "hardware", "auto", "unique"],
        help="Serial number in the guest's firmware tables. unique: the server's UUID. os: /etc/machine-id of the host. hardware: the UUID of "
        "the host's hardware. auto: os, or hardware where that file is missing. none: none.",
    ),
    cfg.StrOpt(
        "rng_dev_path",
        default="/dev/urandom",
        help="Where the random number generators of guests read (hw_rng_model of an image).",
    ),
    cfg.IntOpt(
        "num_pcie_ports",
        default=0,
        min=0,
        max=28,
        help="PCIe ports of guests with machine q35 (x86_64) or virt (aarch64): each of their devices takes one, also an interface that is "
        "attached while they run. 0: as many as their devices take, and 8 more. It takes effect at the next hard reboot of a guest.",
    ),
    cfg.BoolOpt(
        "swtpm_enabled",
        default=False,
        help="Offer emulated TPMs to guests. It needs swtpm and swtpm_setup (Debian packages swtpm and swtpm-tools), and [guest_secrets] "
        "key_file of the conductors.",
    ),
    cfg.IntOpt(
        "num_memory_encrypted_guests",
        min=0,
        help="Most guests with encrypted memory (hw:mem_encryption) on this host; unset: as many as its hardware supports, as far as "
        "libvirt knows that.",
    ),
    cfg.IntOpt(
        "max_queues",
        min=1,
        max=256,
        help="Most queues of an interface of a guest with several CPUs whose image or flavor asks for multiqueue "
        "(hw_vif_multiqueue_enabled); unset: as many as the kernel takes, 256 from release 4 on, 8 with 3.",
    ),
    cfg.IntOpt(
        "console_log_max_kb",
        default=2048,
        min=128,
        max=1 << 20,
        help="Size from which a guest's console log is emptied; its last part, of this size, is kept as console.log.0. The compute "
        "looks every 10 s. It matters where libvirt runs without virtlogd; virtlogd's own limit (max_size) is as large.",
    ),
    cfg.IntOpt(
        "device_detach_attempts",
        default=8,
        min=1,
        help="Attempts to detach an interface from a running guest.",
    ),
    cfg.IntOpt(
        "device_detach_timeout",
        default=20,
        min=1,
        help="Seconds that the guest has for each attempt to release the interface.",
    ),
    cfg.IntOpt(
        "wait_soft_reboot_seconds",
        default=120,
        min=0,
        help="Seconds that a guest has to shut itself down for a soft reboot; then it is rebooted hard.",
    ),
    cfg.StrOpt(
        "disk_export_ports",
        default="49216:49279",
        help="Ports on which this host serves the disks of guests that move to other hosts while they are off, FIRST:LAST; one per "
        "move. The connection is encrypted with a key of that move. The address is my_ip.",
    ),
    cfg.StrOpt(
        "live_migration_inbound_addr",
        help="Address or name by which other hosts reach libvirt and QEMU of this host in a live migration; unset: my_ip. With TLS, the "
        "certificate of libvirt must name it.",
    ),
    cfg.StrOpt(
        "live_migration_scheme",
        choices=["tcp", "tls"],
        help="How libvirt of this host reaches libvirt of the destination; unset: tls where guests migrate encrypted, else tcp, which is "
        "neither encrypted nor asks for a password.",
    ),
    cfg.BoolOpt(
        "live_migration_with_native_tls",
        sample_default="<where the host has certificates of QEMU>",
        help="Encrypt memory and disks of guests that migrate. Source and destination need certificates of QEMU in /etc/pki/qemu; those of a "
        "host must name the host as libvirt does (virsh hostname). Unset: encrypt if they are there.",
    ),
    cfg.IntOpt(
        "live_migration_bandwidth",
        default=0,
        min=0,
        help="Most MiB/s of a live migration; 0: as much as there is.",
    ),
    cfg.IntOpt(
        "live_migration_downtime",
        default=500,
        min=100,
        help="Milliseconds for which a guest may stand still at the end of a live migration.",
    ),
    cfg.IntOpt(
        "live_migration_downtime_steps",
        default=10,
        min=3,
        help="Steps in which the permitted downtime grows to live_migration_downtime.",
    ),
    cfg.IntOpt(
        "live_migration_downtime_delay",
        default=75,
        min=3,
        help="Seconds between these steps, for each GiB of memory and of disks to copy; at least 2 GiB count.",
    ),
    cfg.IntOpt(
        "live_migration_completion_timeout",
        default=800,
        min=0,
        help="Seconds that a live migration may take for each GiB of memory and of disks to copy (at least 2 GiB count), before "
        "live_migration_timeout_action; 0: as long as it takes.",
    ),
    cfg.StrOpt(
        "live_migration_timeout_action",
        default="abort",
        choices=["abort", "force_complete"],
        help="abort: the guest stays where it is. force_complete: switch to post-copy if that is permitted, else pause the guest until "
        "it has arrived.",
    ),
    cfg.BoolOpt(
        "live_migration_permit_post_copy",
        default=False,
        help="Let a guest on shared disks run at the destination before its memory is there, if the migration is forced to complete. If "
        "the network or a host fails then, the guest is lost.",
    ),
    cfg.BoolOpt(
        "live_migration_permit_auto_converge",
        default=False,
        help="Slow down the CPUs of a guest that changes its memory faster than it can be copied. Without effect where post-copy "
        "is permitted and possible.",
    ),
    cfg.IntOpt(
        "live_migration_parallel_connections",
        default=1,
        min=1,
        help="Connections on which memory is sent. Post-copy needs one connection: more than one rule it out.",
    ),
    cfg.IntOpt(
        "live_migration_post_copy_stall",
        default=60,
        min=5,
        help="Seconds without progress after which a post-copy counts as failed. libvirt does not notice a cut network by itself.",
    ),
]


def uri_of(conf: cfg.ConfigOpts) -> str:
    """Returns the URI of libvirt."""
    return str(conf.libvirt.connection_uri or _URIS.get(conf.libvirt.virt_type, SYSTEM_URI))
