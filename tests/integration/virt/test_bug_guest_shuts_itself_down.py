"""A guest on real QEMU that goes off by itself is SHUTOFF, and is stopped again when it is started behind the cloud's back."""

from collections.abc import Callable
from pathlib import Path

import libvirt

from minova.cmd.compute import make_manager as make_compute_manager
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import CTX, FakeImages, configured
from tests.fakes.conductor import FakeConductor
from tests.integration.virt.test_guest import NANO, instance, load
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for


def test_a_guest_that_goes_off_by_itself(guest_image: Path, tmp_path: Path) -> None:
    with Libvirtd() as server:
        driver, conductor, images = load(tmp_path, server.uri), FakeConductor(), FakeImages()
        images.path = guest_image
        (node,) = driver.available_nodes()
        queue: list[Callable[[], None]] = []
        manager = make_compute_manager(
            configured(),
            driver,
            conductor,  # type: ignore[arg-type]  # the API's part is not there
            host="hv1",
            images=images,
            spawn=queue.append,
        )

        def run() -> None:
            while queue:
                queue.pop(0)()
            manager.report_changes()

        manager.init_host()
        manager.pre_start_hook()
        guest = instance()
        message = conductor.commit_build(guest.uuid, "hv1", node, NANO, image=guest.image)
        manager.build_and_run_instance(CTX, message)
        run()

        def row() -> Instance:
            run()
            return conductor.instances[guest.uuid]

        assert row().vm_state is VmState.ACTIVE
        connection = libvirt.open(server.uri)
        domain = connection.lookupByUUIDString(guest.uuid)
        # What libvirt reports after ACPI power off from inside: the process of the guest ends.
        domain.destroyFlags(libvirt.VIR_DOMAIN_DESTROY_GRACEFUL)
        wait_for("SHUTOFF", lambda: row().vm_state is VmState.STOPPED)
        assert row().power_state is PowerState.SHUTDOWN
        domain.create()
        wait_for("it runs", lambda: row().power_state is PowerState.RUNNING)
        manager.update_available_resource()
        run()
        assert not domain.isActive()
        wait_for("off again", lambda: row().power_state is PowerState.SHUTDOWN)
        assert row().vm_state is VmState.STOPPED
        conductor.begin_delete(guest.uuid)
        manager.terminate_instance(CTX, guest.uuid, node)
        run()
        assert driver.domains() == ()
        connection.close()
        manager.stop()
