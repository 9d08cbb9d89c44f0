"""A host under another name, or whose node is under another name, must not lose the books of its running guests."""

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from tests.fakes.identified import Machine
from tests.functional.conductor.desk import CTX, Desk
from tests.functional.scheduler.cloud import named

ID = named("an identity")


@pytest.fixture
def machine(desk: Desk, tmp_path) -> Machine:  # type: ignore[no-untyped-def]
    return Machine(tmp_path / "machine", desk.conductor)


def rows(desk: Desk) -> dict[str, str]:
    """{node: uuid} of all nodes but those of the desk's own hosts."""
    with desk.db.read() as session:
        found = session.execute(select(models.ComputeNode.hypervisor_hostname, models.ComputeNode.uuid))
        return {name: uuid for name, uuid in found if not name.endswith("-node")}


def boot_guest(desk: Desk, host: str, node: str) -> str:
    """An active instance with an allocation on the node."""
    uuid = desk.active("a")
    desk.db.run(
        lambda session: session.query(models.Instance).filter_by(uuid=uuid).update({"host": host, "node": node})
    )
    return uuid


def test_node_under_another_name_refuses_to_start_and_keeps_its_row(desk: Desk, machine: Machine) -> None:
    machine.boot("hv", "hv").die()
    before = rows(desk)
    boot_guest(desk, "hv", "hv")
    with pytest.raises(errors.HostIdentityConflict, match=r"minova-manage host rename hv hv --node hv\.example\.com"):
        machine.boot("hv", "hv.example.com")
    assert rows(desk) == before
    machine.boot("hv", "hv").die()


def test_host_under_another_name_refuses_to_start_and_names_the_command(desk: Desk, machine: Machine) -> None:
    machine.boot("hv").die()
    with pytest.raises(errors.HostIdentityConflict, match="minova-manage host rename hv new"):
        machine.boot("new")
    with desk.db.read() as session:
        assert session.scalar(select(models.Service.id).where(models.Service.host == "new")) is None
    assert list(rows(desk)) == ["hv"]


def test_machine_that_lost_its_identity_refuses_to_start(desk: Desk, machine: Machine) -> None:
    machine.boot("hv").die()
    kept = machine.compute_id
    (machine.folder / "compute_id").unlink()
    with pytest.raises(errors.HostIdentityConflict, match=kept):
        machine.boot("hv")
    (machine.folder / "compute_id").write_text(kept)
    machine.boot("hv").die()


def test_another_machine_with_the_name_is_refused(desk: Desk, machine: Machine) -> None:
    machine.boot("hv").die()
    (machine.folder / "compute_id").write_text(ID)
    with pytest.raises(errors.HostIdentityConflict, match=f"this machine's is {ID}"):
        machine.boot("hv")


def test_host_of_an_older_release_takes_its_node_as_identity(desk: Desk, machine: Machine) -> None:
    node = desk.audit("a")
    compute = machine.boot("a", "a-node")
    assert machine.compute_id == node.uuid
    compute.die()
    machine.boot("a", "a-node").die()


def test_first_node_of_a_new_host_has_its_identity(desk: Desk, machine: Machine) -> None:
    machine.folder.mkdir()
    (machine.folder / "compute_id").write_text(ID)
    machine.boot("hv").die()
    assert rows(desk) == {"hv": ID}


def test_empty_node_under_another_name_is_the_same_node(desk: Desk, machine: Machine) -> None:
    machine.boot("hv", "hv").die()
    (uuid,) = rows(desk).values()
    machine.boot("hv", "hv.example.com").die()
    assert rows(desk) == {"hv.example.com": uuid}


def test_running_compute_whose_node_is_renamed_keeps_the_row_and_says_why_it_is_down(
    desk: Desk, machine: Machine
) -> None:
    compute = machine.boot("hv", "hv")
    before = rows(desk)
    boot_guest(desk, "hv", "hv")
    compute.driver.nodes = ("hv.example.com",)
    compute.manager.update_available_resource()
    compute.manager.heartbeat()
    assert rows(desk) == before
    assert "Node hv of host hv has" in (service(desk, "hv").down_reason or "")
    compute.driver.nodes = ("hv",)
    compute.manager.update_available_resource()
    compute.manager.heartbeat()
    assert service(desk, "hv").down_reason is None


def test_compute_of_an_older_release_cannot_drop_a_node_that_has_instances(desk: Desk) -> None:
    uuid = desk.active("a")
    with pytest.raises(errors.HostIdentityConflict, match="1 instances"):
        desk.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node",))
    renamed = msgspec.structs.replace(desk.view("a", uuid), node="a.b", hypervisor_hostname="a.b")
    with pytest.raises(errors.HostIdentityConflict, match="a-node"):
        desk.conductor.begin_audit(CTX, host="a", view=renamed)
    assert desk.allocated() == {uuid: "a"}


def test_node_of_a_build_that_is_under_way_stays(desk: Desk) -> None:
    desk.create()
    with pytest.raises(errors.HostIdentityConflict, match="1 builds"):
        desk.conductor.delete_compute_nodes(CTX, host="a", nodes=("a-node",))


def service(desk: Desk, host: str) -> models.Service:
    with desk.db.read() as session:
        return session.scalars(select(models.Service).where(models.Service.host == host)).one()
