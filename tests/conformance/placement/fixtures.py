"""The clouds that OpenStack Placement's own tests begin with, by the names of its fixture classes, made over HTTP.

What they hold is described in the comments of `placement.tests.functional.fixtures.gabbits`. The tests find uuids in
environment variables.
"""

import os
import uuid
from typing import Any, ClassVar

import gabbi.fixture

from tests.conformance.placement.client import Client

SHARES = "MISC_SHARES_VIA_AGGREGATE"
# Set by the runner: where the server of this file listens.
SERVER = "MINOVA_PLACEMENT_URL"


class APIFixture(gabbi.fixture.GabbiFixture):  # type: ignore[misc]
    """Nothing but names that are free."""

    names: ClassVar[tuple[str, ...]] = (
        "RP_UUID", "RP_NAME", "RP_UUID1", "RP_NAME1", "RP_UUID2", "RP_NAME2", "PROJECT_ID", "ADMIN_PROJECT_ID",
        "SERVICE_PROJECT_ID", "USER_ID", "PROJECT_ID_ALT", "USER_ID_ALT", "INSTANCE_UUID", "MIGRATION_UUID",
        "CONSUMER_UUID", "PARENT_PROVIDER_UUID", "ALT_PARENT_PROVIDER_UUID", "ALT_USER_ID", "ALT_RP_UUID", "ALT_RP_NAME",
        "CONSUMER_0", "CONSUMER_ID", "ALT_CONSUMER_ID", "AGG_UUID", "AGGA_UUID", "AGGB_UUID", "AGGC_UUID", "AGGA", "AGGB",
        "AGGC",
    )  # fmt: skip

    def start_fixture(self) -> None:
        self.client = Client(os.environ[SERVER])
        for name in self.names:
            os.environ[name] = str(uuid.uuid4())
        for number in ("", "1", "2"):
            os.environ[f"CUSTOM_RES_CLASS{number}"] = f"CUSTOM_IRON_NFV{number}"
        self.make()

    def make(self) -> None:
        """The fixture's own cloud."""

    def provider(
        self,
        name: str,
        variable: str | None = None,
        *,
        parent: str | None = None,
        aggregates: tuple[str, ...] = (),
        traits: tuple[str, ...] = (),
        **inventories: Any,
    ) -> str:
        """Its uuid, which `variable` shows. An inventory is a total, or a dict; without max_unit that is the total."""
        provider = self.client.make_provider(name, str(uuid.uuid4()), parent)
        if variable is not None:
            os.environ[variable] = provider
        self.client.set_aggregates(provider, [os.environ[aggregate] for aggregate in aggregates])
        for resource_class, numbers in inventories.items():
            whole = {"total": numbers} if isinstance(numbers, int) else numbers
            self.client.add_inventory(provider, resource_class, {"max_unit": whole["total"], **whole})
        self.client.set_traits(provider, traits)
        return provider

    def allocate(self, provider: str, consumer: str, project: str, user: str, **resources: int) -> None:
        self.client.allocate(provider, consumer, project, user, resources)


class CORSFixture(APIFixture):
    """Its server is told which origins may ask; see the runner."""


class AllocationFixture(APIFixture):
    def make(self) -> None:
        env = os.environ
        provider = self.client.make_provider(env["RP_NAME"], env["RP_UUID"])
        disk = {"total": 2048, "step_size": 10, "min_unit": 10, "max_unit": 1000}
        self.client.add_inventory(provider, "DISK_GB", disk)
        self.client.add_inventory(provider, "VCPU", {"total": 10, "max_unit": 10})
        project = env["PROJECT_ID"]
        self.allocate(provider, env["CONSUMER_0"], project, env["USER_ID"], DISK_GB=1000)
        self.allocate(provider, env["CONSUMER_ID"], project, env["USER_ID"], VCPU=6)
        self.allocate(provider, env["ALT_CONSUMER_ID"], project, env["ALT_USER_ID"], DISK_GB=20, VCPU=1)


class SharedStorageFixture(APIFixture):
    def make(self) -> None:
        aggregates = ("AGG_UUID",)
        disk = {"total": 2000, "reserved": 100}
        own: dict[int, dict[str, Any]] = {
            1: {"traits": ("HW_CPU_X86_SSE", "HW_CPU_X86_SSE2")},
            2: {"DISK_GB": disk},
        }
        for number, more in own.items():
            node = self.provider(
                f"cn{number}",
                f"CN{number}_UUID",
                aggregates=aggregates,
                VCPU={"total": 24, "allocation_ratio": 16.0},
                MEMORY_MB={"total": 128 * 1024, "allocation_ratio": 1.5},
                **more,
            )
            for cell in ("1", "2"):
                suffix = f"{number}_{cell}"
                numa = self.provider(f"numa{suffix}", f"NUMA{suffix}_UUID", parent=node)
                self.provider(f"pf{suffix}", f"PF{suffix}_UUID", parent=numa, SRIOV_NET_VF=8)
        for name in ("ss", "ss2"):
            self.provider(name, f"{name.upper()}_UUID", aggregates=aggregates, traits=(SHARES,), DISK_GB=disk)


class NUMAAggregateFixture(APIFixture):
    def make(self) -> None:
        for number, aggregates in ((1, ("AGGA_UUID",)), (2, ("AGGA_UUID", "AGGB_UUID"))):
            node = self.provider(f"cn{number}", f"CN{number}_UUID", aggregates=aggregates)
            for cell in (1, 2):
                suffix = f"{number}_{cell}"
                self.provider(
                    f"numa{suffix}",
                    f"NUMA{suffix}_UUID",
                    parent=node,
                    aggregates=("AGGC_UUID",) if suffix == "1_1" else (),
                    VCPU={"total": 24, "allocation_ratio": 16.0},
                )
        for name, aggregate in (("ss1", "AGGA_UUID"), ("ss2", "AGGC_UUID")):
            disk = {"total": 2000, "reserved": 100}
            self.provider(name, f"{name.upper()}_UUID", aggregates=(aggregate,), traits=(SHARES,), DISK_GB=disk)


class NUMANetworkFixture(APIFixture):
    def make(self) -> None:
        self.network(None, None)

    def network(self, above_first: str | None, above_second: str | None) -> None:
        shared = ("AGGA_UUID",)
        self.provider("ss1", "SS1_UUID", aggregates=shared, traits=(SHARES,), DISK_GB=2000)
        first = self.provider(
            "cn1", "CN1_UUID", parent=above_first, aggregates=shared, traits=("COMPUTE_VOLUME_MULTI_ATTACH",)
        )
        self._cells(first)
        self._agents(first)
        second = self.provider(
            "cn2",
            "CN2_UUID",
            parent=above_second,
            aggregates=shared,
            traits=("CUSTOM_FOO",),
            VCPU=8,
            MEMORY_MB={"total": 2048, "min_unit": 1024, "step_size": 128},
            DISK_GB=1000,
        )
        self.allocate(second, str(uuid.uuid4()), "numafx-project", "numafx-user", VCPU=3)
        self._nics(second)

    def _cells(self, node: str) -> None:
        memory = {"total": 2048, "min_unit": 512, "step_size": 256}
        cell = self.provider("numa0", "NUMA0_UUID", parent=node, traits=("HW_NUMA_ROOT",), VCPU=4, MEMORY_MB=memory)
        self.allocate(cell, str(uuid.uuid4()), "numafx-project", "numafx-user", VCPU=2)
        self.provider("fpga0", "FPGA0_UUID", parent=cell, FPGA=1)
        self.provider("pgpu0", "PGPU0_UUID", parent=cell, VGPU=8)
        memory = {"total": 2048, "min_unit": 256, "max_unit": 1024}
        traits = ("HW_NUMA_ROOT", "CUSTOM_FOO")
        cell = self.provider("numa1", "NUMA1_UUID", parent=node, traits=traits, VCPU=4, MEMORY_MB=memory)
        for number in (0, 1):
            self.provider(f"fpga1_{number}", f"FPGA1_{number}_UUID", parent=cell, FPGA=1)

    def _agents(self, node: str) -> None:
        agent = self.provider("sriov_agent", "SRIOV_AGENT_UUID", parent=node, traits=("CUSTOM_VNIC_TYPE_DIRECT",))
        for number in (1, 2):
            traits = (f"CUSTOM_PHYSNET{number}",)
            bandwidth: dict[str, Any] = {"NET_BW_EGR_KILOBIT_PER_SEC": 10000 * number}
            self.provider(f"esn{number}", f"ESN{number}_UUID", parent=agent, traits=traits, **bandwidth)
        agent = self.provider("ovs_agent", "OVS_AGENT_UUID", parent=node, traits=("CUSTOM_VNIC_TYPE_NORMAL",))
        self.provider(
            "br_int", "BR_INT_UUID", parent=agent, traits=("CUSTOM_PHYSNET0",), NET_BW_EGR_KILOBIT_PER_SEC=1000
        )

    def _nics(self, node: str) -> None:
        # (functions' networks, virtual functions of each) of each network card
        cards = {1: ((1, 2), 4), 2: ((1, 2, 1, 2), 2), 3: ((1,), 8)}
        for card, (networks, functions) in cards.items():
            nic = self.provider(f"nic{card}", f"NIC{card}_UUID", parent=node, traits=("CUSTOM_HW_NIC_ROOT",))
            for port, network in enumerate(networks, 1):
                self.provider(
                    f"pf{card}_{port}",
                    f"PF{card}_{port}_UUID",
                    parent=nic,
                    traits=(f"CUSTOM_PHYSNET{network}",),
                    CUSTOM_VF=functions,
                )


class DeepNUMANetworkFixture(NUMANetworkFixture):
    def make(self) -> None:
        top = self.provider("gp1")
        self.network(self.provider("p1", parent=top), self.provider("p2", parent=top))


class NonSharedStorageFixture(APIFixture):
    def make(self) -> None:
        for number in (1, 2, 3):
            self.provider(f"cn{number}", f"CN{number}_UUID", VCPU=24, MEMORY_MB=128 * 1024, DISK_GB=2000)


class GranularFixture(APIFixture):
    def make(self) -> None:
        node: dict[str, Any] = {"VCPU": 8, "MEMORY_MB": 4096}
        network: dict[str, Any] = {"SRIOV_NET_VF": 8, "CUSTOM_NET_MBPS": 4000}
        self.provider(
            "cn_left",
            "CN_LEFT",
            aggregates=("AGGA",),
            traits=("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_GPU_API_DXVA", "HW_NIC_DCB_PFC", "CUSTOM_FOO"),
            **node,
            DISK_GB=500,
            VGPU=8,
            **network,
        )
        self.provider(
            "cn_middle",
            "CN_MIDDLE",
            aggregates=("AGGA", "AGGB"),
            traits=("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE", "HW_NIC_ACCEL_TLS"),
            **node,
            **network,
        )
        self.provider(
            "cn_right",
            "CN_RIGHT",
            aggregates=("AGGB", "AGGC"),
            traits=("HW_CPU_X86_MMX", "HW_GPU_API_DXVA", "CUSTOM_DISK_SSD"),
            **node,
            DISK_GB=500,
            VGPU={"total": 8, "max_unit": 2},
        )
        ssd = (SHARES, "CUSTOM_DISK_SSD")
        self.provider("shr_disk_1", "SHR_DISK_1", aggregates=("AGGA",), traits=ssd, DISK_GB=1000)
        self.provider("shr_disk_2", "SHR_DISK_2", aggregates=("AGGA", "AGGB"), traits=(SHARES,), DISK_GB=1000)
        self.provider(
            "shr_net", "SHR_NET", aggregates=("AGGC",), traits=(SHARES,), SRIOV_NET_VF=16, CUSTOM_NET_MBPS=40000
        )


class NeutronQoSMultiSegmentFixture(APIFixture):
    """Computes by the network segments of their bridges and cards: compute3 has two of each, with less bandwidth."""

    segments: ClassVar[dict[int, tuple[str, ...]]] = {
        0: ("OTHER",),
        1: ("MSN_S1",),
        2: ("MSN_S2",),
        3: ("MSN_S1", "MSN_S2"),
    }

    def make(self) -> None:
        for number, segments in self.segments.items():
            name = f"compute{number}"
            node = self.provider(name, name, VCPU=8, MEMORY_MB=4096, DISK_GB=500)
            small = 1000 if len(segments) > 1 else None
            self._bridges(name, node, segments, small or 5000)
            self._cards(name, node, segments, small or 10000)

    def _bridges(self, name: str, node: str, segments: tuple[str, ...], bandwidth: int) -> None:
        normal = "CUSTOM_VNIC_TYPE_NORMAL"
        agent = self.provider(
            f"{name}:Open vSwitch agent",
            f"{name}:ovs_agent",
            parent=node,
            traits=(normal,),
            NET_PACKET_RATE_KILOPACKET_PER_SEC=1000,
        )
        for segment, number in zip(segments, ("", "2"), strict=False):
            self.provider(
                f"{name}:Open vSwitch agent:br-ex{number}",
                f"{name}:br_ex{number}",
                parent=agent,
                traits=(normal, f"CUSTOM_PHYSNET_{segment}"),
                NET_BW_EGR_KILOBIT_PER_SEC=bandwidth,
                NET_BW_IGR_KILOBIT_PER_SEC=bandwidth,
            )

    def _cards(self, name: str, node: str, segments: tuple[str, ...], bandwidth: int) -> None:
        types = tuple(f"CUSTOM_VNIC_TYPE_{kind}" for kind in ("DIRECT", "DIRECT_PHYSICAL", "MACVTAP"))
        agent = self.provider(f"{name}:NIC Switch agent", f"{name}:sriov_agent", parent=node, traits=types)
        for number, segment in enumerate(segments):
            self.provider(
                f"{name}:NIC Switch agent:enp129s0f{number}",
                f"{name}:pf{number}",
                parent=agent,
                traits=(*types, f"CUSTOM_PHYSNET_{segment}"),
                NET_BW_EGR_KILOBIT_PER_SEC=bandwidth,
                NET_BW_IGR_KILOBIT_PER_SEC=bandwidth,
            )
