"""A host under another name, or whose node is under another name, must not lose the books of its running guests."""

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from tests.fakes.identified import Machine
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import named

ID = named("an identity")


@pytest.fixture
def machine(harness: ConductorHarness, tmp_path) -> Machine:  # type: ignore[no-untyped-def]
    return Machine(tmp_path / "machine", harness.conductor)


def rows(harness: ConductorHarness) -> dict[str, str]:
    """{node: uuid} of all nodes but those of the harness's own hosts."""
    with harness.db.read() as session:
        node_rows = session.execute(select(models.ComputeNode.hypervisor_hostname, models.ComputeNode.uuid))
        return {name: uuid for name, uuid in node_rows if not name.endswith("-node")}


def boot_guest(harness: ConductorHarness, host: str, node: str) -> str:
    """An active instance with an allocation on the node."""
    uuid = harness.active("a")
    harness.db.run(
        lambda session: session.query(models.Instance).filter_by(uuid=uuid).update({"host": host, "node": node})
    )
    return uuid


def test_node_under_another_name_refuses_to_start_and_keeps_its_row(
    harness: ConductorHarness, machine: Machine
) -> None:
    machine.boot("hv", "hv").die()
    before = rows(harness)
    boot_guest(harness, "hv", "hv")
    with pytest.raises(errors.HostIdentityConflict, match=r"minova-manage host rename hv hv --node hv\.example\.com"):
        machine.boot("hv", "hv.example.com")
    assert rows(harness) == before
    machine.boot("hv", "hv").die()


def test_host_under_another_name_refuses_to_start_and_names_the_command(
    harness: ConductorHarness, machine: Machine
) -> None:
    machine.boot("hv").die()
    with pytest.raises(errors.HostIdentityConflict, match="minova-manage host rename hv new"):
        machine.boot("new")
    with harness.db.read() as session:
        assert session.scalar(select(models.Service.id).where(models.Service.host == "new")) is None
    assert list(rows(harness)) == ["hv"]


def test_machine_that_lost_its_identity_refuses_to_start(harness: ConductorHarness, machine: Machine) -> None:
    machine.boot("hv").die()
    kept = machine.compute_id
    (machine.folder / "compute_id").unlink()
    with pytest.raises(errors.HostIdentityConflict, match=kept):
        machine.boot("hv")
    (machine.folder / "compute_id").write_text(kept)
    machine.boot("hv").die()


def test_another_machine_with_the_name_is_refused(harness: ConductorHarness, machine: Machine) -> None:
    machine.boot("hv").die()
    (machine.folder / "compute_id").write_text(ID)
    with pytest.raises(errors.HostIdentityConflict, match=f"this machine's is {ID}"):
        machine.boot("hv")


def test_host_of_an_older_release_takes_its_node_as_identity(harness: ConductorHarness, machine: Machine) -> None:
    node = harness.audit("a")
    compute = machine.boot("a", "a-node")
    assert machine.compute_id == node.uuid
    compute.die()
    machine.boot("a", "a-node").die()


def test_first_node_of_a_new_host_has_its_identity(harness: ConductorHarness, machine: Machine) -> None:
    machine.folder.mkdir()
    (machine.folder / "compute_id").write_text(ID)
    machine.boot("hv").die()
    assert rows(harness) == {"hv": ID}


def test_empty_node_under_another_name_is_the_same_node(harness: ConductorHarness, machine: Machine) -> None:
    machine.boot("hv", "hv").die()
    (uuid,) = rows(harness).values()
    machine.boot("hv", "hv.example.com").die()
    assert rows(harness) == {"hv.example.com": uuid}


def test_running_compute_whose_node_is_renamed_keeps_the_row_and_says_why_it_is_down(
    harness: ConductorHarness, machine: Machine
) -> None:
    compute = machine.boot("hv", "hv")
    before = rows(harness)
    boot_guest(harness, "hv", "hv")
    compute.driver.nodes = ("hv.example.com",)
    compute.manager.update_available_resource()
    compute.manager.heartbeat()
    assert rows(harness) == before
    assert "Node hv of host hv has" in (service(harness, "hv").down_reason or "")
    compute.driver.nodes = ("hv",)
    compute.manager.update_available_resource()
    compute.manager.heartbeat()
    assert service(harness, "hv").down_reason is None


def test_compute_of_an_older_release_cannot_drop_a_node_that_has_instances(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    with pytest.raises(errors.HostIdentityConflict, match="1 instances"):
        harness.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node",))
    renamed = msgspec.structs.replace(harness.view("a", uuid), node="a.b", hypervisor_hostname="a.b")
    with pytest.raises(errors.HostIdentityConflict, match="a-node"):
        harness.conductor.begin_audit(CTX, host="a", view=renamed)
    assert harness.allocated() == {uuid: "a"}


def test_node_of_a_build_that_is_under_way_stays(harness: ConductorHarness) -> None:
    harness.create()
    with pytest.raises(errors.HostIdentityConflict, match="1 builds"):
        harness.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node",))


def service(harness: ConductorHarness, host: str) -> models.Service:
    with harness.db.read() as session:
        return session.scalars(select(models.Service).where(models.Service.host == host)).one()
