"""Nova without those of its defects that minova does not follow (docs/reference/compatibility.md), to compare with."""

import copy
import itertools
import types

from nova import exception
from nova.pci import stats
from nova.scheduler import host_manager
from nova.virt import hardware


def repair():
    fit, consume = hardware.numa_fit_instance_to_host, host_manager.HostState._locked_consume_from_request
    apply, pages_used = stats.PciDeviceStats.apply_requests, hardware._numa_pagesize_usage_from_cell

    def fit_of_copies(host, guest, *args, **kwargs):
        """Each permutation by itself and on a fresh guest, so that none is spoilt by those tried before it."""
        if not (host and guest) or len(host) < len(guest):
            return fit(host, guest, *args, **kwargs)
        order = []
        _with_permutations(
            lambda cells, count: order.extend(cells) or [], fit, host, guest.obj_clone(), *args, **kwargs
        )
        serves = [_serving(guest, index, order, kwargs.get("limits")) for index in range(len(guest))]
        for tried in itertools.permutations(order, len(guest)):
            if all(cell.id in ids for cell, ids in zip(tried, serves, strict=True)):
                permutation = [tried]
                fitted = _with_permutations(
                    lambda *_, one=permutation: one, fit, host, guest.obj_clone(), *args, **kwargs
                )
                if fitted:
                    return fitted
        return None

    def consume_all_that_fits(state, spec):
        """What does not fit takes no CPUs or devices; all else is taken."""
        before = state.num_io_ops
        try:
            consume(state, spec)
        finally:
            state.num_io_ops = before + 1

    def apply_all_or_none(self, *args, **kwargs):
        pools = copy.deepcopy(self.pools)
        try:
            apply(self, *args, **kwargs)
        except exception.PciDeviceRequestFailed:
            self.pools = pools
            raise

    def pages_used_where_there_are_any(host, *args):
        return pages_used(host, *args) if host.mempages else []

    hardware._numa_pagesize_usage_from_cell = pages_used_where_there_are_any
    stats.PciDeviceStats.apply_requests = apply_all_or_none
    hardware.numa_fit_instance_to_host = fit_of_copies
    host_manager.HostState._locked_consume_from_request = consume_all_that_fits


def _with_permutations(permutations, call, *args, **kwargs):
    hardware.itertools = types.SimpleNamespace(**{**vars(itertools), "permutations": permutations})
    try:
        return call(*args, **kwargs)
    finally:
        hardware.itertools = itertools


def _serving(guest, index, cells, limits):
    """Ids of the host cells that one cell of the guest fits on."""
    reserved = 1 if index == 0 and guest.emulator_threads_isolated else 0
    cell_ids = set()
    for cell in cells:
        try:
            if hardware._numa_fit_instance_cell(cell, guest.obj_clone().cells[index], limits, reserved):
                cell_ids.add(cell.id)
        except exception.MemoryPageSizeNotSupported:
            continue
    return cell_ids
