"""The records of a fake hypervisor. A file keeps them after the end of the process, as real domains outlive it."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from oslo_config import cfg

from minova import errors
from minova.codecs import Decoder
from minova.objects.actions.power_rules import OFF
from minova.objects.guests.guest_states import GuestReason
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.private_files import make_folder


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one domain.

    `boots`: how often its guest has booted. While it does not change, the guest has the memory of that boot.
    `saved`: the memory of the guest is saved, and its next start goes on from it.
    """

    uuid: str
    node: str
    attempt: int
    memory_mb: int
    disk_gb: int
    vcpus: int
    power_state: PowerState = PowerState.SHUTDOWN
    reason: GuestReason = GuestReason.NONE
    console: str = ""
    macs: tuple[str, ...] = ()
    boots: int = 0
    saved: bool = False

    def turned(self, state: PowerState) -> "Domain":
        """Returns the domain in this state: a guest that is off boots, or goes on from its saved memory."""
        if self.power_state not in OFF or state in OFF:
            return msgspec.structs.replace(self, power_state=state, reason=GuestReason.NONE)
        return msgspec.structs.replace(
            self, power_state=state, reason=GuestReason.NONE, boots=self.boots + (not self.saved), saved=False
        )

    @property
    def view(self) -> DomainView:
        return DomainView(
            uuid=self.uuid,
            name=f"instance-{self.uuid}",
            memory_mb=self.memory_mb,
            vcpus=self.vcpus,
            power_state=self.power_state,
            reason=self.reason,
            attempt=self.attempt,
        )


_DOMAINS = Decoder(list[Domain])


def macs_of(instance: Instance) -> tuple[str, ...]:
    return tuple(vif.mac_address for vif in instance.network_info)


class FakeRecords:
    """Safe for threads. Nodes are `fake_nodes`, or one with the name of the host."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.nodes: tuple[str, ...] = tuple(conf.fake_nodes) or (conf.host,)
        self._file = Path(conf.instances_path) / "fake-domains.json" if conf.fake_persistent else None
        self._lock = threading.RLock()
        self._failures: dict[str, list[Exception]] = defaultdict(list)
        self._changed: list[Callable[[str, PowerState], None]] = []
        self._domains: dict[str, Domain] = self._read()

    def fail(self, operation: str, failures: Iterable[Exception]) -> None:
        """Make the next calls of the operation raise these exceptions, one each; then it works again. `operation` is a
        method name.
        """
        with self._lock:
            self._failures[operation].extend(failures)

    def turn(self, instance_uuid: str, state: PowerState, reason: GuestReason = GuestReason.NONE) -> None:
        """Change the state of the domain by itself, as a guest that shuts down does. Raises NotFound if there is no
        domain.
        """
        with self._lock:
            self._write(msgspec.structs.replace(self._domain(instance_uuid).turned(state), reason=reason))
            watchers = tuple(self._changed)
        for changed in watchers:
            changed(instance_uuid, state)

    def domain(self, instance_uuid: str) -> Domain | None:
        """Returns the record of the domain; None if there is no domain."""
        with self._lock:
            return self._domains.get(instance_uuid)

    def _turn_to(self, instance_uuid: str, state: PowerState) -> PowerState:
        """Change the state. Sends no event if the domain is in that state already."""
        with self._lock:
            if self._domain(instance_uuid).power_state is not state:
                self.turn(instance_uuid, state)
        return state

    def _is_on(self, domain: Domain, node: str) -> bool:
        """Whether the domain is on the node. If there is only one node, it has every domain, whatever its name was when
        they were made.
        """
        return len(self.nodes) == 1 or domain.node == node

    def _begin(self, operation: str) -> None:
        with self._lock:
            planned = self._failures[operation]
            if planned:
                raise planned.pop(0)

    def _domain(self, instance_uuid: str) -> Domain:
        domain = self._domains.get(instance_uuid)
        if domain is None:
            raise errors.NotFound(f"Domain of instance {instance_uuid}")
        return domain

    def _write(self, domain: Domain) -> None:
        self._domains[domain.uuid] = domain
        self._save()

    def _read(self) -> dict[str, Domain]:
        if self._file is None:
            return {}
        try:
            domains = _DOMAINS.from_json(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise errors.InvalidConfiguration(
                f"[DEFAULT] instances_path: {self._file} cannot be read: {error.strerror}"
            ) from error
        return {domain.uuid: domain for domain in domains}

    def _save(self) -> None:
        if self._file is None:
            return
        make_folder(self._file.parent)
        half = self._file.with_suffix(".part")
        half.write_bytes(msgspec.json.encode(list(self._domains.values())))
        half.rename(self._file)
