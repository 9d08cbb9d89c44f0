"""Bounds of what a host may report. A stolen host sends what it likes; the types below say what is accepted.

The bounds are far above real hosts (thousands of CPUs, hundreds of devices, TiBs of memory). They are checked where a message is decoded
(`minova/messaging/dispatch.py`) and where a row is read. A constructor does not check them. What no field can say, such as NaN or NUL, is refused
for each message there.
"""

from typing import Annotated

from msgspec import Meta

# The largest number that a column of 32 bits can hold.
MAX_COUNT = 2**31 - 1
_MAX_LONG = 2**63 - 1

# A number that a row holds, such as a count or an id.
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
# A figure of a node: negative where more is used than there is. The row holds the nearest number that it can.
Figure = Annotated[int, Meta(ge=-_MAX_LONG, le=_MAX_LONG)]
# A share of a cell that guests use: negative for a moment, while one leaves.
Usage = Annotated[int, Meta(ge=-MAX_COUNT, le=MAX_COUNT)]
# A number that rises for as long as a process lives.
Serial = Annotated[int, Meta(ge=0, le=_MAX_LONG)]
# Nova's power states.
PowerNumber = Annotated[int, Meta(ge=0, le=15)]
# From below Nova's smallest ratio to far above its largest one.
Ratio = Annotated[float, Meta(ge=0, le=1e9)]
# Seconds since the epoch.
Time = Annotated[float, Meta(ge=0, le=1e12)]

# What a column of text holds: a name, an id, an address.
Line = Annotated[str, Meta(max_length=255)]
Id = Annotated[str, Meta(max_length=36)]
# A longer name, which no column holds.
Name = Annotated[str, Meta(max_length=4096)]
# A reason with a program's own error.
Reason = Annotated[str, Meta(max_length=256 * 1024)]
# JSON of a CPU, with all features and machine types.
Document = Annotated[str, Meta(max_length=256 * 1024)]

# The most guests on one host, and in messages about several of them.
MAX_GUESTS = 10_000
# The most nodes that one host serves, and addresses that it has.
MAX_NODES = 256
# The most reports in one message. Computes send 64.
MAX_REPORTS = 256
# The most devices of one node, and pools of them.
MAX_DEVICES = 8192
# The most tags of a device, and metrics, stats and cards of a node.
MAX_NAMES = 1024
# A VLAN each, on a few physical networks.
MAX_BRIDGES = 4 * 4096
# As many as Linux can have.
MAX_CPU = 65_535
# A machine of 64 sockets with two cells each. All hosts' cells stand in one array of the scheduler, as wide as the largest host.
MAX_CELLS = 128
# All differences that an audit lists.
MAX_FOUND = 100_000

CpuNumber = Annotated[int, Meta(ge=0, le=MAX_CPU)]
# The threads of one core.
Core = Annotated[frozenset[CpuNumber], Meta(max_length=64)]
CpuSet = Annotated[frozenset[CpuNumber], Meta(max_length=MAX_CPU + 1)]
# In KiB. Every size is a power of two from 4 KiB to 16 GiB: the scheduler has an array for each size that a host has.
PAGE_SIZES = tuple(4 << shift for shift in range(23))
PageSize = Annotated[int, Meta(ge=PAGE_SIZES[0], le=PAGE_SIZES[-1])]
