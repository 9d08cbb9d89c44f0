"""Hostile images, made byte by byte: each with the formats that it may be declared as, and whether one of them is served.

    python -m tests.security.image_corpus FOLDER

writes them into the folder, inspects each as each format, and prints a line of JSON for every inspection.
"""

import json
import os
import random
import resource
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BITS = 12
CLUSTER = 1 << BITS
FIELDS = {
    "magic": ("4s", b"QFI\xfb"),
    "version": ("I", 3),
    "backing_offset": ("Q", 0),
    "backing_size": ("I", 0),
    "cluster_bits": ("I", BITS),
    "size": ("Q", 1 << 20),
    "crypt_method": ("I", 0),
    "l1_size": ("I", 1),
    "l1_offset": ("Q", 2 * CLUSTER),
    "refcount_offset": ("Q", CLUSTER),
    "refcount_clusters": ("I", 1),
    "snapshots": ("I", 0),
    "snapshots_offset": ("Q", 0),
    "incompatible": ("Q", 0),
    "compatible": ("Q", 0),
    "autoclear": ("Q", 0),
    "refcount_order": ("I", 4),
    "header_length": ("I", 104),
}
WIDTHS = {"4s": 4, "I": 4, "Q": 8}
KB, MB = 1 << 10, 1 << 20
ALL = ("qcow2", "raw", "vmdk", "vhd", "vhdx", "vdi", "iso", "luks", "ami", "QCOW2", "")


class Hostile(NamedTuple):
    """`served`: the format as which it is served, since it can do no harm as that; None: as none."""

    name: str
    data: bytes
    served: str | None = None
    declared: tuple[str, ...] = ("qcow2", "raw")


def qcow2(*, patches: tuple[tuple[int, bytes], ...] = (), length: int | None = None, **lies: Any) -> bytes:
    """Header, refcount table, L1 table, L2 table and one cluster of data, a cluster each."""
    values = {name: default for name, (_, default) in FIELDS.items()} | lies
    file = bytearray(5 * CLUSTER)
    struct.pack_into(">" + "".join(code for code, _ in FIELDS.values()), file, 0, *values.values())
    struct.pack_into(">Q", file, 2 * CLUSTER, 1 << 63 | 3 * CLUSTER)
    struct.pack_into(">Q", file, 3 * CLUSTER, 1 << 63 | 4 * CLUSTER)
    for offset, data in patches:
        file[offset : offset + len(data)] = data
    return bytes(file[:length])


def corpus() -> Iterator[Hostile]:
    yield from _cut_short()
    yield from _lying_fields()
    yield from _features()
    yield from _cluster_sizes()
    yield from _other_files()
    yield from _tables()
    yield from _other_formats()
    yield from _polyglots()
    yield from _noise()


def _cut_short() -> Iterator[Hostile]:
    """At each field of the header. What is shorter than a header may be a raw disk: it has no meaning to QEMU."""
    end = 0
    for name, (code, _) in FIELDS.items():
        yield Hostile(f"cut-before-{name}", qcow2(length=end), None, ("qcow2",))
        yield Hostile(f"cut-within-{name}", qcow2(length=end + 2), None, ("qcow2",))
        end += WIDTHS[code]
    for clusters in range(1, 5):
        yield Hostile(f"cut-after-{clusters}-clusters", qcow2(length=clusters * CLUSTER))
    yield Hostile("cut-within-l1", qcow2(length=2 * CLUSTER + 4))
    yield Hostile("cut-within-l2", qcow2(length=3 * CLUSTER + 8))


def _lying_fields() -> Iterator[Hostile]:
    """Each field at its limits. The features that a reader may ignore, and those of other programs, are harmless."""
    harmless = {"compatible", "autoclear", "snapshots_offset", "backing_size"}
    for name, (code, _) in FIELDS.items():
        if code == "4s":
            continue
        bits = 8 * WIDTHS[code]
        for value in (2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1):
            lies: dict[str, Any] = {name: value}
            yield Hostile(f"{name}-{value:x}", qcow2(**lies), "qcow2" if name in harmless else None)
    for name in ("version", "size", "l1_size", "l1_offset", "refcount_offset", "cluster_bits", "header_length"):
        zero: dict[str, Any] = {name: 0}
        yield Hostile(f"{name}-zero", qcow2(**zero))
    for version in (1, 4, 255):
        yield Hostile(f"version-{version}", qcow2(version=version))
    for method in (1, 2, 3):
        yield Hostile(f"crypt-{method}", qcow2(crypt_method=method))


def _features() -> Iterator[Hostile]:
    """Bit 0 is set when QEMU was killed; bit 3 names the way of compression."""
    for bit in range(1, 64):
        if bit != 3:
            yield Hostile(f"feature-{bit}", qcow2(incompatible=1 << bit))


def _cluster_sizes() -> Iterator[Hostile]:
    for bits in (*range(1, 9), *range(22, 64, 6)):
        yield Hostile(f"clusters-2^{bits}", qcow2(cluster_bits=bits))


def _other_files() -> Iterator[Hostile]:
    """What would make QEMU open another file of the host."""
    for number, name in enumerate(
        (
            b"/etc/passwd",
            b"../../etc/shadow",
            b'json:{"driver":"nbd"}',
            b"nbd://10.0.0.1/x",
            b"/dev/sda",
            b"\0",
            b"x" * 1023,
        )
    ):
        told: dict[str, Any] = {"backing_offset": 200, "backing_size": len(name)}
        yield Hostile(f"backing-{number}", qcow2(patches=((200, name),), **told))
    yield Hostile("backing-beyond", qcow2(backing_offset=1 << 40, backing_size=11))
    yield Hostile("backing-without-end", qcow2(backing_offset=200, backing_size=2**32 - 1))
    for kind, data in ((0x44415441, b"/etc/passwd"), (0xE2792ACA, b"raw")):
        extension = struct.pack(">II", kind, len(data)) + data
        feature = 1 << 2 if kind == 0x44415441 else 0
        lies: dict[str, Any] = {
            "incompatible": feature,
            "backing_offset": 0 if feature else 300,
            "backing_size": 4,
        }
        yield Hostile(f"extension-{kind:x}", qcow2(patches=((104, extension),), **lies))


def _tables() -> Iterator[Hostile]:
    def l1(*entries: int, **lies: Any) -> bytes:
        return qcow2(patches=((2 * CLUSTER, struct.pack(f">{len(entries)}Q", *entries)),), **lies)

    def l2(*entries: int) -> bytes:
        return qcow2(patches=((3 * CLUSTER, struct.pack(f">{len(entries)}Q", *entries)),))

    for offset in (5 * CLUSTER, 1 << 40, 1 << 55, 3 * CLUSTER + 512, 4 * CLUSTER + 512):
        yield Hostile(f"l1-entry-{offset:x}", l1(1 << 63 | offset))
    for offset in (5 * CLUSTER, 1 << 40, 1 << 55):
        yield Hostile(f"l2-entry-{offset:x}", l2(1 << 63 | offset))
        yield Hostile(f"packed-{offset:x}", l2(1 << 62 | offset))
    # A packed cluster that says it is much longer than it is unpacks to one cluster at most.
    yield Hostile("packed-bomb", l2(*([1 << 62 | 0x3 << 58 | 4 * CLUSTER] * (CLUSTER // 8))), "qcow2")
    for size in (2, 1 << 22, (1 << 22) + 1, 1 << 31):
        yield Hostile(f"l1-of-{size}", qcow2(l1_size=size), "qcow2" if size == 2 else None)
    yield Hostile("l1-too-small", qcow2(size=1 << 40))
    yield Hostile("l1-not-aligned", qcow2(l1_offset=2 * CLUSTER + 8))
    yield Hostile("l1-in-header", qcow2(l1_offset=0))
    yield Hostile("l1-at-end", qcow2(l1_offset=5 * CLUSTER))
    yield Hostile("l1-wraps", qcow2(l1_offset=2**64 - CLUSTER, l1_size=1 << 20))
    yield Hostile("refcount-beyond", qcow2(refcount_offset=6 * CLUSTER))
    yield Hostile("refcount-too-long", qcow2(refcount_clusters=5))
    yield Hostile("refcount-not-aligned", qcow2(refcount_offset=CLUSTER + 8))
    yield Hostile("snapshots-beyond", qcow2(snapshots=1, snapshots_offset=1 << 40))
    yield Hostile("snapshots-too-many", qcow2(snapshots=65537, snapshots_offset=CLUSTER))
    yield Hostile("snapshots-too-long", qcow2(snapshots=60000, snapshots_offset=CLUSTER))
    yield Hostile("tables-that-are-each-other", l1(1 << 63 | 2 * CLUSTER), "qcow2")
    yield from _full_tables()


def _full_tables() -> Iterator[Hostile]:
    """The largest L1 table that QEMU reads, full: it leads to each cluster of the file, so that all of it is tables."""
    bits, entries = 9, 1 << 22
    header = qcow2(cluster_bits=bits, size=entries * 64 * 512, l1_size=entries, l1_offset=1024, refcount_offset=512)[
        :512
    ]
    for name, file_size in (("once", 33 * MB), ("and-more", 48 * MB)):
        clusters = file_size // 512
        targets = b"".join(struct.pack(">Q", 1 << 63 | (number % clusters) * 512) for number in range(clusters))
        table = (targets * (entries * 8 // len(targets) + 1))[: entries * 8]
        yield Hostile(f"l1-full-{name}", (header + bytes(512) + table).ljust(file_size, b"\0"), "qcow2", ("qcow2",))


def _other_formats() -> Iterator[Hostile]:
    """As which formats they are declared does not matter; raw only where QEMU could not take it for more."""
    descriptor = b'# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\ncreateType="%s"\nRW 1 FLAT "%s" 0\n'
    sparse = struct.pack("<4sIIQQQQ", b"KDMV", 1, 3, 2048, 128, 1, 20)
    for number, (kind, extent) in enumerate(
        (
            (b"monolithicFlat", b"/etc/passwd"),
            (b"monolithicFlat", b"../../etc/shadow"),
            (b"twoGbMaxExtentFlat", b"/dev/sda"),
            (b"vmfs", b"/var/lib/x"),
            (b"streamOptimized", b"nbd://10.0.0.1/x"),
            (b"monolithicSparse", b"x"),
        )
    ):
        text = descriptor % (kind, extent)
        yield Hostile(f"vmdk-descriptor-{number}", text.ljust(8 * KB, b"\0"), None, ("qcow2", "vmdk", "raw"))
        yield Hostile(f"vmdk-sparse-{number}", sparse.ljust(512, b"\0") + text.ljust(20 * 512, b"\0"), None, ALL)
    volume = bytes(32 * KB) + b"\1CD001\1" + bytes(2 * MB)
    for name, data in {
        "vhd": b"conectix" + bytes(504),
        "vhdx": b"vhdxfile" + bytes(3 * MB),
        "vdi": b"<<< Oracle VM VirtualBox Disk Image >>>\n".ljust(64, b"\0")
        + struct.pack("<I", 0xBEDA107F)
        + bytes(4096),
        "iso": volume,
        "luks": b"LUKS\xba\xbe\0\1" + bytes(4096),
        "luks-2": b"LUKS\xba\xbe\0\2" + bytes(4096),
        "qed": b"QED\0" + bytes(4096),
        "vmdk-3": b"COWD" + bytes(4096),
        "parallels": b"WithoutFreeSpace" + bytes(4096),
        "parallels-2": b"WithouFreSpacExt" + bytes(4096),
        "bochs": b"Bochs Virtual HD Image\0" + bytes(4096),
        "cloop": b"#!/bin/sh\n#V2.0 Format\nmodprobe cloop file=$0 && mount -r -t iso9660 /dev/cloop $1\n"
        + bytes(4096),
    }.items():
        yield Hostile(name, data, None, ALL)
    yield Hostile("empty", b"", None, ALL)


def _polyglots() -> Iterator[Hostile]:
    """Files of two formats: which one a reader takes must not be chance."""
    volume = b"\1CD001\1" + bytes(2 * KB)
    master = bytes(446) + b"\x80\0\0\0\xee" + bytes(59) + b"\x55\xaa"
    first = {
        "qcow2": qcow2()[:512],
        "vhdx": b"vhdxfile".ljust(512, b"\0"),
        "vmdk": struct.pack("<4sIIQQQQ", b"KDMV", 1, 3, 2048, 128, 1, 20).ljust(512, b"\0"),
        "luks": b"LUKS\xba\xbe\0\1".ljust(512, b"\0"),
    }
    for name, head in first.items():
        yield Hostile(f"{name}-and-iso", head.ljust(32 * KB, b"\0") + volume)
        yield Hostile(f"{name}-and-partitions", head[:446] + master[446:] + bytes(8 * KB))
    yield Hostile("partitions-and-iso", master.ljust(32 * KB, b"\0") + volume)
    yield Hostile("qcow2-after-partitions", master + qcow2(), "raw")
    yield Hostile("qcow2-at-the-end", bytes(8 * KB) + qcow2(backing_offset=200, backing_size=11), "raw")


def _noise() -> Iterator[Hostile]:
    """A sound image with a few bytes of chance. Whatever is found: within the limits, and no other error."""
    chance = random.Random(160)
    for number in range(60):
        at = chance.choice((chance.randrange(4, 112), chance.randrange(5 * CLUSTER)))
        patch = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 17)))
        yield Hostile(f"noise-{number}", qcow2(patches=((at, patch),)), "either")


def main(folder: Path) -> None:
    from minova.errors import ImageUnacceptable  # noqa: PLC0415  - before the limit of memory is set
    from minova.image_format import inspection  # noqa: PLC0415

    inspection.inspect(_written(folder / "warm-up", qcow2()), "qcow2")
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (taken + 192 * MB,) * 2)
    for hostile in corpus():
        path = _written(folder / "image", hostile.data)
        for declared in hostile.declared:
            begun = time.process_time()
            try:
                answer = f"served as {inspection.inspect(path, declared).disk_format}"
            except ImageUnacceptable as error:
                answer = f"refused: {error}"
            except Exception as error:  # noqa: BLE001  - the test tells of it
                answer = f"{type(error).__name__}: {error}"
            seconds = time.process_time() - begun
            print(json.dumps([hostile.name, declared, hostile.served, answer, seconds]))


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]))
