"""Filters and weighers as an operator wrote them for OpenStack Nova. Only the two imports of base classes are minova's."""

# Untyped, as such code is.
# mypy: disable-error-code=no-untyped-def

import logging

from minova.scheduler import filters, weights

LOG = logging.getLogger(__name__)


class RackFilter(filters.BaseHostFilter):
    """Keeps instances to the rack that the flavor or the hint `rack` names."""

    RUN_ON_REBUILD = True

    def host_passes(self, host_state, spec_obj):
        rack = spec_obj.get_scheduler_hint("rack") or spec_obj.flavor.extra_specs.get("acme:rack")
        if not rack:
            return True
        racks = {aggr.metadata["rack"] for aggr in host_state.aggregates if "rack" in aggr.metadata}
        if rack not in racks:
            LOG.debug("%(host_state)s is not in rack %(rack)s", {"host_state": host_state, "rack": rack})
            return False
        return True


class QuietHalfFilter(filters.BaseHostFilter):
    """Of the hosts that are left the half with the fewest instances."""

    def filter_all(self, filter_obj_list, spec_obj):
        ranked = sorted(filter_obj_list, key=lambda host: (len(host.instances), host.nodename))
        return ranked[: (len(ranked) + 1) // 2]


class ReservedRamFilter(filters.BaseHostFilter):
    """Leaves memory to the host, and tells the compute how far it may go."""

    run_filter_once_per_request = True
    asked = 0

    def host_passes(self, host_state, spec_obj):
        ReservedRamFilter.asked += 1
        limit = host_state.total_usable_ram_mb * host_state.ram_allocation_ratio - 4096
        used = host_state.total_usable_ram_mb - host_state.free_ram_mb
        if limit - used < spec_obj.memory_mb:
            return False
        host_state.limits["memory_mb"] = limit
        host_state.limits["acme_bandwidth"] = host_state.stats.get("bandwidth", "0")
        return True


class BrokenFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return host_state.power_draw < 100


class LastNodeWeigher(weights.BaseHostWeigher):
    """Prefers nodes with high numbers, more so in aggregates that say it."""

    minval = 0

    def weight_multiplier(self, host_state):
        for aggr in host_state.aggregates:
            if "last_node_weight_multiplier" in aggr.metadata:
                return float(aggr.metadata["last_node_weight_multiplier"])
        return 10.0

    def _weigh_object(self, host_state, weight_properties):
        """Higher weights win."""
        return int(host_state.nodename[len("node") :]) - 1
