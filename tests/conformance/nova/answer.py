"""What Nova itself answers to a scenario. Runs with the interpreter of an environment that has Nova 34 in it.

    python answer.py --old FOLDER SCENARIO.json.gz ANSWER.json.gz [SCENARIO ANSWER]...

FOLDER holds the unpacked packages `nova-19.3.2` and `nova-20.6.1`, for the filters that Nova has dropped since.
"""

import argparse
import contextlib
import copy
import datetime
import gzip
import json

import nova.conf
import repair
from hosts_of import host_states
from nova import context as nova_context
from nova import exception, objects
from nova import weights as nova_weights
from nova.compute import claims
from nova.pci import request as pci_request
from nova.scheduler import filters, host_manager, weights
from nova.virt import hardware
from object_json import limits_of, topology_json, usage_json
from old import filter_classes
from oslo_utils import timeutils
from spec_of import request_spec

CONF = nova.conf.CONF
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


def error_text(error):
    return f"{type(error).__name__}: {error}"


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
        weigher_classes = handler.get_matching_classes(CONF.filter_scheduler.weight_classes)
        if list(CONF.filter_scheduler.weight_classes) == ["nova.scheduler.weights.all_weighers"]:
            weigher_classes = sorted(weigher_classes, key=lambda made: WEIGHERS.index(made.__name__))
        self.weighers = [weigher_class() for weigher_class in weigher_classes]
        self.groups = {}
        self.spoilt = False

    def answer(self, request):
        told_of = {"id": request["id"], "error": None}
        try:
            spec = request_spec(request, self.context)
        except Exception as error:  # noqa: BLE001  - the answer
            return {**told_of, "error": error_text(error)}
        self.join_known(spec)
        told_of["numa_constraints"] = topology_json(spec.numa_topology)
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
            told_of["error"] = error_text(error)
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
        known_group = spec.instance_group and self.groups.get(spec.instance_group.uuid)
        if known_group:
            for name in ("members", "hosts"):
                have = getattr(spec.instance_group, name)
                setattr(spec.instance_group, name, have + [new for new in known_group[name] if new not in have])

    def individual(self, spec, failed):
        hosts_by_filter = {}
        for host_filter in self.filters:
            self.fresh()
            name = type(host_filter).__name__
            try:
                hosts_by_filter[name] = [state.host for state in host_filter.filter_all(self.states, spec.obj_clone())]
            except Exception as error:  # noqa: BLE001  - the answer
                failed[name] = error_text(error)
        return {name: sorted(hosts) for name, hosts in hosts_by_filter.items()}

    def chain(self, spec, chain):
        self.manager.enabled_filters = [Recorder(host_filter, chain) for host_filter in self.filters]
        return list(self.manager.get_filtered_hosts(self.states, spec))

    def weights(self, left, spec):
        if len(left) <= 1:
            return {}
        weights_by_weigher = {}
        for weigher in self.weighers:
            objects_ = [weights.WeighedHost(state, 0.0) for state in left]
            raw = weigher.weigh_objects(objects_, spec)
            norm = nova_weights.normalize(list(raw), minval=weigher.minval, maxval=weigher.maxval)
            by = {"raw": raw, "norm": list(norm), "mult": [weigher.weight_multiplier(state) for state in left]}
            names = [state.host for state in left]
            weights_by_weigher[type(weigher).__name__] = {
                kind: dict(zip(names, values, strict=True)) for kind, values in by.items()
            }
        return weights_by_weigher

    def fits(self, spec):
        numa, pci = spec.numa_topology, spec.pci_requests.requests
        individual = {}
        if numa:
            individual["numa_fit"] = {state.host: self.numa_fit(state, spec) for state in self.states}
        if pci:
            individual["pci_ok"] = {
                state.host: bool(state.pci_stats.support_requests(pci, provider_mapping={})) for state in self.states
            }
        if numa or pci:
            individual["claims"] = {state.host: self.claim(state, spec) for state in self.states}
        return individual

    def numa_fit(self, state, spec):
        if not state.numa_topology:
            return None
        try:
            topology = hardware.numa_fit_instance_to_host(
                state.numa_topology,
                spec.numa_topology.obj_clone(),
                limits=limits_of(state),
                pci_requests=spec.pci_requests.requests,
                pci_stats=state.pci_stats,
                provider_mapping={},
            )
        except Exception as error:  # noqa: BLE001  - the answer
            return error_text(error)
        return topology_json(topology)

    def claim(self, state, spec):
        node = objects.ComputeNode(numa_topology=state.numa_topology._to_json() if state.numa_topology else None)
        server = objects.Instance(uuid=spec.instance_uuid, numa_topology=copy.deepcopy(spec.numa_topology))
        requests = objects.InstancePCIRequests(requests=spec.pci_requests.requests)
        limits = {"numa_topology": limits_of(state)}
        try:
            claims.Claim(self.context, server, state.nodename, Tracker(state.pci_stats), node, requests, limits=limits)
        except Exception as error:  # noqa: BLE001  - the answer
            return str(error) if isinstance(error, exception.ComputeResourcesUnavailable) else error_text(error)
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
            group_state = self.groups.setdefault(spec.instance_group.uuid, {"members": [], "hosts": []})
            group_state["members"].append(spec.instance_uuid)
            group_state["hosts"].append(state.host)
        topology = state.numa_topology
        return {
            "host": state.host,
            "free_ram_mb": state.free_ram_mb,
            "free_disk_mb": state.free_disk_mb,
            "vcpus_used": state.vcpus_used,
            "num_instances": state.num_instances,
            "num_io_ops": state.num_io_ops,
            "numa": None if topology is None else [usage_json(cell) for cell in topology.cells],
            "pci_pools": [dict(sorted(pool.items())) for pool in state.pci_stats.pools],
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
            "filters": [type(host_filter).__name__ for host_filter in cloud.filters],
            "weighers": [type(weigher).__name__ for weigher in cloud.weighers],
            "requests": [cloud.answer(request) for request in scenario["requests"]],
        }
        with gzip.open(into, "wt") as file:
            json.dump(answer, file)


if __name__ == "__main__":
    main()
