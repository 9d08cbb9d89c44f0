"""What Nova itself answers to a scenario. Runs with the interpreter of an environment that has Nova 34 in it.

    python answer.py --old FOLDER SCENARIO.json.gz ANSWER.json.gz [SCENARIO ANSWER]...

FOLDER holds the unpacked packages `nova-19.3.2` and `nova-20.6.1`, for the filters that Nova has dropped since.
"""

import argparse
import contextlib
import copy
import datetime
import gzip
import importlib.util
import json
import pathlib
import uuid
import warnings

import repair

# Before what follows, which warns.
warnings.simplefilter("ignore")

import nova.conf  # noqa: E402
from nova import context as nova_context  # noqa: E402
from nova import exception, objects  # noqa: E402
from nova import weights as nova_weights  # noqa: E402
from nova.compute import claims  # noqa: E402
from nova.pci import request as pci_request  # noqa: E402
from nova.scheduler import filters, host_manager, weights  # noqa: E402
from nova.virt import hardware  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

CONF = nova.conf.CONF
NAMES = uuid.UUID("6f1c0f52-7d1a-4a53-8a0c-3f54ab1f6f11")
OLD = {
    "nova-20.6.1": {
        "retry_filter": ["RetryFilter"],
        "availability_zone_filter": ["AvailabilityZoneFilter"],
        "core_filter": ["AggregateCoreFilter"],
        "ram_filter": ["AggregateRamFilter"],
        "disk_filter": ["AggregateDiskFilter"],
    },
    "nova-19.3.2": {
        "core_filter": ["CoreFilter"],
        "ram_filter": ["RamFilter"],
        "disk_filter": ["DiskFilter"],
    },
}
CLASSIC = [
    "RetryFilter",
    "AvailabilityZoneFilter",
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "AggregateInstanceExtraSpecsFilter",
    "SameHostFilter",
    "DifferentHostFilter",
    "PciPassthroughFilter",
    "NUMATopologyFilter",
]
# Nova takes them as they lie on its disk; the given answers have this order.
WEIGHERS = [
    "CrossCellWeigher",
    "NumInstancesWeigher",
    "MetricsWeigher",
    "CPUWeigher",
    "BuildFailureWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
    "RAMWeigher",
    "DiskWeigher",
    "PCIWeigher",
    "ImagePropertiesWeigher",
    "IoOpsWeigher",
    "HypervisorVersionWeigher",
]


def filter_classes(old):
    """By name: Nova 34's, and those it has dropped."""
    found = {made.__name__: made for made in filters.all_filters()}
    for package, modules in OLD.items():
        for module, names in modules.items():
            path = pathlib.Path(old, package, "nova", "scheduler", "filters", f"{module}.py")
            spec = importlib.util.spec_from_file_location(f"{package}.{module}", path)
            loaded = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
            for name in names:
                found[name] = getattr(loaded, name)
    return found


def uuid_of(name):
    try:
        uuid.UUID(name)
    except ValueError:
        return str(uuid.uuid5(NAMES, name))
    return name


def told(error):
    return f"{type(error).__name__}: {error}"


# -- hosts -------------------------------------------------------------------------------------------------------------


def numa_cell(cell):
    pages = [
        objects.NUMAPagesTopology(
            size_kb=page["size_kb"], total=page["total"], used=page.get("used", 0), reserved=page.get("reserved", 0)
        )
        for page in cell.get("mempages", [])
    ]
    return objects.NUMACell(
        id=cell["id"],
        cpuset=set(cell.get("cpuset", [])),
        pcpuset=set(cell.get("pcpuset", [])),
        memory=cell["memory"],
        cpu_usage=cell.get("cpu_usage", 0),
        memory_usage=cell.get("memory_usage", 0),
        pinned_cpus=set(cell.get("pinned_cpus", [])),
        siblings=[set(siblings) for siblings in cell.get("siblings", [])],
        mempages=pages,
        socket=cell.get("socket"),
    )


def pci_pool(pool):
    return objects.PciDevicePool(
        vendor_id=pool["vendor_id"],
        product_id=pool["product_id"],
        numa_node=pool.get("numa_node"),
        count=pool.get("count", 0),
        tags={"dev_type": pool.get("dev_type", "type-PCI"), **pool.get("tags", {})},
    )


def compute_node(host, number):
    numa = host.get("numa")
    topology = objects.NUMATopology(cells=[numa_cell(cell) for cell in numa]) if numa else None
    info = host.get("cpu_info")
    return objects.ComputeNode(
        id=number,
        uuid=uuid_of(host.get("uuid") or host["host"]),
        host=host["host"],
        hypervisor_hostname=host.get("node") or host["host"],
        vcpus=host["vcpus"],
        vcpus_used=host.get("vcpus_used", 0),
        memory_mb=host["memory_mb"],
        memory_mb_used=host.get("memory_mb_used", 0),
        free_ram_mb=host["memory_mb"] - host.get("memory_mb_used", 0),
        local_gb=host["local_gb"],
        local_gb_used=host.get("local_gb_used", 0),
        free_disk_gb=host["local_gb"] - host.get("local_gb_used", 0),
        disk_available_least=host.get("disk_available_least"),
        cpu_allocation_ratio=host.get("cpu_allocation_ratio", 4.0),
        ram_allocation_ratio=host.get("ram_allocation_ratio", 1.0),
        disk_allocation_ratio=host.get("disk_allocation_ratio", 1.0),
        hypervisor_type=host.get("hypervisor_type", "QEMU"),
        hypervisor_version=host.get("hypervisor_version", 0),
        host_ip=host.get("host_ip"),
        cpu_info=info if info is None or isinstance(info, str) else json.dumps(info),
        supported_hv_specs=[objects.HVSpec.from_list(spec) for spec in host.get("supported_instances", [])],
        stats=host.get("stats", {}),
        metrics=metrics_text(host.get("metrics", [])),
        numa_topology=topology._to_json() if topology else None,
        pci_device_pools=objects.PciDevicePoolList(objects=[pci_pool(pool) for pool in host.get("pci_pools", [])]),
        updated_at=None,
    )


def metrics_text(metrics):
    stamp = "2020-01-01T00:00:00.000000"
    return json.dumps([{"timestamp": stamp, "source": "test", **metric} for metric in metrics])


def service(host, number, now):
    age = datetime.timedelta(seconds=host.get("heartbeat_age", 0))
    return {
        "id": number,
        "host": host["host"],
        "binary": "nova-compute",
        "topic": "compute",
        "report_count": 1,
        "disabled": host.get("disabled", False),
        "disabled_reason": None,
        "forced_down": host.get("forced_down", False),
        "last_seen_up": now - age,
        "created_at": now - age,
        "updated_at": now - age,
    }


def instance(name, images):
    properties = images.get(name)
    made = objects.Instance(uuid=uuid_of(name), image_ref="")
    made.system_metadata = {f"image_{key}": value for key, value in (properties or {}).items()}
    return made


def host_states(scenario, now):
    aggregates = [
        objects.Aggregate(
            id=found.get("id", number),
            uuid=uuid_of(f"aggregate {number}"),
            name=found.get("name", ""),
            hosts=list(found.get("hosts", [])),
            metadata=dict(found.get("metadata", {})),
        )
        for number, found in enumerate(scenario.get("aggregates", []))
    ]
    states = []
    for number, host in enumerate(scenario["hosts"], 1):
        images = host.get("instance_images", {})
        names = [*host.get("instances", []), *(name for name in images if name not in host.get("instances", []))]
        state = host_manager.HostState(
            host["host"], host.get("node") or host["host"], uuid_of(host.get("cell") or "cell")
        )
        state.update(
            compute=compute_node(host, number),
            service=service(host, number, now),
            aggregates=[found for found in aggregates if host["host"] in found.hosts],
            inst_dict={uuid_of(name): instance(name, images) for name in names},
        )
        states.append(state)
    return states


# -- requests ----------------------------------------------------------------------------------------------------------


def request_spec(request, context):
    size = request["flavor"]
    flavor = objects.Flavor(
        id=1,
        flavorid="1",
        name=size.get("name", "m1"),
        vcpus=size.get("vcpus", 1),
        memory_mb=size.get("memory_mb", 0),
        root_gb=size.get("root_gb", 0),
        ephemeral_gb=size.get("ephemeral_gb", 0),
        swap=size.get("swap", 0),
        extra_specs=dict(size.get("extra_specs", {})),
    )
    meta = {"properties": dict(request.get("image") or {})}
    if request.get("image_id"):
        meta["id"] = uuid_of(request["image_id"])
    image = objects.ImageMeta.from_dict(meta)
    numa = hardware.numa_get_constraints(flavor, image)
    pci = pci_requests(request, flavor, image)
    hints = request.get("hints") or {}
    return objects.RequestSpec(
        context,
        instance_uuid=uuid_of(request.get("instance_uuid") or request["id"]),
        project_id=request.get("project_id") or "project",
        flavor=flavor,
        image=image,
        numa_topology=numa,
        pci_requests=pci,
        num_instances=1,
        availability_zone=request.get("availability_zone"),
        scheduler_hints={key: value if isinstance(value, list) else [value] for key, value in hints.items()},
        ignore_hosts=request.get("ignore_hosts"),
        force_hosts=request.get("force_hosts"),
        force_nodes=request.get("force_nodes"),
        retry=retry(request),
        instance_group=group(request),
        requested_destination=destination(request),
        requested_resources=[],
        limits=objects.SchedulerLimits(),
        security_groups=objects.SecurityGroupList(),
        ignore_image_metadata=False,
    )


def pci_requests(request, flavor, image):
    """Those of the flavor's aliases, then those of ports."""
    policy = hardware.get_pci_numa_policy_constraint(flavor, image)
    found = pci_request.get_pci_requests_from_flavor(flavor, affinity_policy=policy)
    found.requests.extend(
        objects.InstancePCIRequest(
            count=asked.get("count", 1),
            spec=copy.deepcopy(asked.get("spec", [])),
            numa_policy=asked.get("numa_policy"),
            request_id=uuid_of(f"pci {number}"),
        )
        for number, asked in enumerate(request.get("pci_requests") or [])
    )
    return found


def retry(request):
    tried = request.get("retry_hosts")
    if not tried:
        return None
    hosts = [objects.ComputeNode(host=host, hypervisor_hostname=node) for host, node in tried]
    return objects.SchedulerRetries(num_attempts=len(hosts), hosts=objects.ComputeNodeList(objects=hosts))


def group(request):
    found = request.get("group")
    if not found:
        return None
    made = objects.InstanceGroup(
        uuid=uuid_of(found.get("uuid") or "group"),
        name=found.get("name", "group"),
        policy=found["policy"],
        policies=[found["policy"]],
        members=[uuid_of(name) for name in found.get("members", [])],
        hosts=list(found.get("hosts", [])),
    )
    made._rules = {key: str(value) for key, value in (found.get("rules") or {}).items()}
    return made


def destination(request):
    found = request.get("requested_destination")
    if not found:
        return None
    made = objects.Destination(allow_cross_cell_move=found.get("allow_cross_cell_move", False))
    if found.get("cell"):
        made.cell = objects.CellMapping(uuid=uuid_of(found["cell"]))
    if found.get("host"):
        made.host, made.node = found["host"], found.get("node")
    return made


# -- answers -----------------------------------------------------------------------------------------------------------


class Recorder:
    """A filter that notes whom it lets pass."""

    def __init__(self, made, chain):
        self.made = made
        self.chain = chain

    def run_filter_for_index(self, index):
        return self.made.run_filter_for_index(index)

    def filter_all(self, states, spec):
        left = list(self.made.filter_all(states, spec))
        self.chain.append([type(self.made).__name__, [state.host for state in left]])
        return left


class Tracker:
    """As much of a resource tracker as a claim looks at."""

    def __init__(self, stats):
        self.pci_tracker = self
        self.stats = stats


class Cloud:
    """The hosts of one scenario, the filters and weighers of its configuration."""

    def __init__(self, scenario, classes):
        self.now = datetime.datetime(2026, 11, 21, 12, 0, 0)  # noqa: DTZ001  - as Nova keeps it
        timeutils.set_time_override(self.now)
        self.context = nova_context.RequestContext("user", "project", is_admin=True)
        self.states = host_states(scenario, self.now)
        self.manager = host_manager.HostManager.__new__(host_manager.HostManager)
        self.manager.filter_handler = filters.HostFilterHandler()
        self.filters = [classes[name]() for name in chain_names(scenario.get("filters"), classes)]
        handler = weights.HostWeightHandler()
        found = handler.get_matching_classes(CONF.filter_scheduler.weight_classes)
        if list(CONF.filter_scheduler.weight_classes) == ["nova.scheduler.weights.all_weighers"]:
            found = sorted(found, key=lambda made: WEIGHERS.index(made.__name__))
        self.weighers = [made() for made in found]
        self.groups = {}
        self.spoilt = False

    def answer(self, request):
        told_of = {"id": request["id"], "error": None}
        try:
            spec = request_spec(request, self.context)
        except Exception as error:  # noqa: BLE001  - the answer
            return {**told_of, "error": told(error)}
        self.join_known(spec)
        told_of["numa_constraints"] = topology_told(spec.numa_topology)
        told_of["filter_errors"] = {}
        told_of["individual"] = self.individual(spec, told_of["filter_errors"])
        told_of.update(self.fits(spec))
        told_of.update(chain=[], selected=[], weights={}, order=[], consumed=None)
        self.fresh()
        try:
            left = self.chain(spec, told_of["chain"])
            told_of["selected"] = [state.host for state in left]
            told_of["weights"] = self.weights(left, spec)
            order = weights.HostWeightHandler().get_weighed_objects(self.weighers, left, spec)
        except Exception as error:  # noqa: BLE001  - the answer
            told_of["error"] = told(error)
            return told_of
        told_of["order"] = [[weighed.obj.host, weighed.weight] for weighed in order]
        if request.get("consume") and order:
            told_of["consumed"] = self.consume(order[0].obj, spec, request.get("image"))
        if self.spoilt:
            told_of["spoilt"] = True
        return told_of

    def fresh(self):
        """As each request meets them: one allocation candidate a host, no limits."""
        for state in self.states:
            state.limits = {}
            state.allocation_candidates = [{"mappings": {}, "allocations": {}}]

    def join_known(self, spec):
        known = spec.instance_group and self.groups.get(spec.instance_group.uuid)
        if known:
            for name in ("members", "hosts"):
                have = getattr(spec.instance_group, name)
                setattr(spec.instance_group, name, have + [new for new in known[name] if new not in have])

    def individual(self, spec, failed):
        found = {}
        for made in self.filters:
            self.fresh()
            name = type(made).__name__
            try:
                found[name] = [state.host for state in made.filter_all(self.states, spec.obj_clone())]
            except Exception as error:  # noqa: BLE001  - the answer
                failed[name] = told(error)
        return {name: sorted(hosts) for name, hosts in found.items()}

    def chain(self, spec, chain):
        self.manager.enabled_filters = [Recorder(made, chain) for made in self.filters]
        return list(self.manager.get_filtered_hosts(self.states, spec))

    def weights(self, left, spec):
        if len(left) <= 1:
            return {}
        found = {}
        for weigher in self.weighers:
            objects_ = [weights.WeighedHost(state, 0.0) for state in left]
            raw = weigher.weigh_objects(objects_, spec)
            norm = nova_weights.normalize(list(raw), minval=weigher.minval, maxval=weigher.maxval)
            by = {"raw": raw, "norm": list(norm), "mult": [weigher.weight_multiplier(state) for state in left]}
            names = [state.host for state in left]
            found[type(weigher).__name__] = {kind: dict(zip(names, values, strict=True)) for kind, values in by.items()}
        return found

    def fits(self, spec):
        numa, pci = spec.numa_topology, spec.pci_requests.requests
        found = {}
        if numa:
            found["numa_fit"] = {state.host: self.numa_fit(state, spec) for state in self.states}
        if pci:
            found["pci_ok"] = {
                state.host: bool(state.pci_stats.support_requests(pci, provider_mapping={})) for state in self.states
            }
        if numa or pci:
            found["claims"] = {state.host: self.claim(state, spec) for state in self.states}
        return found

    def numa_fit(self, state, spec):
        if not state.numa_topology:
            return None
        try:
            found = hardware.numa_fit_instance_to_host(
                state.numa_topology,
                spec.numa_topology.obj_clone(),
                limits=limits_of(state),
                pci_requests=spec.pci_requests.requests,
                pci_stats=state.pci_stats,
                provider_mapping={},
            )
        except Exception as error:  # noqa: BLE001  - the answer
            return told(error)
        return topology_told(found)

    def claim(self, state, spec):
        node = objects.ComputeNode(numa_topology=state.numa_topology._to_json() if state.numa_topology else None)
        server = objects.Instance(uuid=spec.instance_uuid, numa_topology=copy.deepcopy(spec.numa_topology))
        asked = objects.InstancePCIRequests(requests=spec.pci_requests.requests)
        limits = {"numa_topology": limits_of(state)}
        try:
            claims.Claim(self.context, server, state.nodename, Tracker(state.pci_stats), node, asked, limits=limits)
        except Exception as error:  # noqa: BLE001  - the answer
            return str(error) if isinstance(error, exception.ComputeResourcesUnavailable) else told(error)
        return "ok"

    def consume(self, state, spec, image):
        """`spoilt`: Nova could not count the CPUs that it chose itself, so nothing after it can be compared."""
        try:
            state._locked_consume_from_request(spec)
        except (exception.CPUPinningInvalid, exception.CPUPinningUnknown):
            self.spoilt = True
        except Exception:  # noqa: BLE001  - Nova logs it and goes on
            pass
        properties = {f"image_{key}": str(value) for key, value in (image or {}).items()}
        server = objects.Instance(uuid=spec.instance_uuid, image_ref="", system_metadata=properties)
        state.instances.setdefault(spec.instance_uuid, server)
        if spec.instance_group is not None:
            spec.instance_group.hosts.append(state.host)
            spec.instance_group.members.append(spec.instance_uuid)
            known = self.groups.setdefault(spec.instance_group.uuid, {"members": [], "hosts": []})
            known["members"].append(spec.instance_uuid)
            known["hosts"].append(state.host)
        topology = state.numa_topology
        return {
            "host": state.host,
            "free_ram_mb": state.free_ram_mb,
            "free_disk_mb": state.free_disk_mb,
            "vcpus_used": state.vcpus_used,
            "num_instances": state.num_instances,
            "num_io_ops": state.num_io_ops,
            "numa": None if topology is None else [usage_told(cell) for cell in topology.cells],
            "pci_pools": [dict(sorted(pool.items())) for pool in state.pci_stats.pools],
        }


def limits_of(state):
    return objects.NUMATopologyLimits(
        cpu_allocation_ratio=state.cpu_allocation_ratio, ram_allocation_ratio=state.ram_allocation_ratio
    )


def usage_told(cell):
    return {
        "id": cell.id,
        "cpu_usage": cell.cpu_usage,
        "memory_usage": cell.memory_usage,
        "pinned_cpus": sorted(cell.pinned_cpus),
        "mempages": [{"size_kb": page.size_kb, "total": page.total, "used": page.used} for page in cell.mempages],
    }


def topology_told(topology):
    if not topology:
        return None
    return {
        "emulator_threads_policy": topology.emulator_threads_policy,
        "cells": [
            {
                "id": cell.id,
                "cpuset": sorted(cell.cpuset),
                "pcpuset": sorted(cell.pcpuset),
                "memory": cell.memory,
                "pagesize": cell.pagesize,
                "cpu_policy": cell.cpu_policy,
                "cpu_thread_policy": cell.cpu_thread_policy,
                "cpu_pinning": {str(k): v for k, v in sorted((cell.cpu_pinning or {}).items())},
                "cpuset_reserved": None if cell.cpuset_reserved is None else sorted(cell.cpuset_reserved),
            }
            for cell in topology.cells
        ],
    }


def chain_names(wanted, classes):
    if wanted == "default":
        return list(CONF.filter_scheduler.enabled_filters)
    if wanted == "classic":
        return CLASSIC
    if wanted == "all":
        return sorted(classes)
    return wanted if isinstance(wanted, list) else list(CONF.filter_scheduler.enabled_filters)


# -- Nova without its services -----------------------------------------------------------------------------------------


def without_services():
    """No database: the properties of instances are there already, and every cell is known."""
    objects.register_all()
    objects.InstanceList.fill_metadata = lambda self: None
    objects.CellMapping.get_by_uuid = classmethod(lambda cls, context, wanted: objects.CellMapping(uuid=wanted))
    nova_context.target_cell = contextlib.contextmanager(lambda context, cell: iter([context]))


def configure(options):
    for group, names in [(None, CONF._opts), *((g, CONF._groups[g]._opts) for g in CONF._groups)]:
        for name in list(names):
            CONF.clear_override(name, group=group)
    for key, value in options.items():
        group, _, name = key.rpartition(".")
        CONF.set_override(name, value, group=group or None)
    pci_request.get_alias_from_config.cache_clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", required=True)
    parser.add_argument("--repaired", action="store_true", help="without the defects that minova does not follow")
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    CONF([], project="nova", default_config_files=[])
    without_services()
    if args.repaired:
        repair.repair()
    classes = filter_classes(args.old)
    for path, into in zip(args.paths[::2], args.paths[1::2], strict=True):
        with gzip.open(path) as file:
            scenario = json.load(file)
        configure(scenario.get("config", {}))
        cloud = Cloud(scenario, classes)
        answer = {
            "nova": "34.0.0",
            "filters": [type(made).__name__ for made in cloud.filters],
            "weighers": [type(made).__name__ for made in cloud.weighers],
            "requests": [cloud.answer(request) for request in scenario["requests"]],
        }
        with gzip.open(into, "wt") as file:
            json.dump(answer, file)


if __name__ == "__main__":
    main()
