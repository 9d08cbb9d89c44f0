"""A stack of Heat over HTTP, unchanged, against the cloud of the Tempest run.

    python -m tests.conformance.heat

An extra: the first run installs Heat in an environment of its own. `tox -e heat` runs it, as root: its host has a real guest, on QEMU. The
stack is created: its guest executes the user data, which signal the wait condition. Then the stack is updated (metadata in place, then the
flavor: a resize), suspended, resumed, checked and deleted. Prints a line for each step. Exit code 0: each step succeeds, and the deletion
leaves nothing behind.
"""

import logging
import re
import sys
from pathlib import Path
from typing import Any

from tests.conformance.clients import PUBLIC_KEY, connect, installed
from tests.conformance.heat.guest_host import OUTSIDE, guest_host, guest_image
from tests.conformance.tempest.cloud import Cloud, cloud
from tests.servers.heat import Engine, Heat, make_users
from tests.servers.keystone import REGION
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

TEMPLATE = Path(__file__).with_name("stack.yaml")
# Seconds, on a busy machine.
WITHIN = 600.0


def main() -> int:
    logging.disable(logging.CRITICAL)
    executables = installed("heat")
    with (
        guest_host() as host,
        cloud(host.add, guest_image(), allow_resize_to_same_host=True) as new_cloud,
        RabbitMQ() as rabbitmq,
        PostgreSQL() as postgresql,
    ):
        connection = connect(new_cloud.keystone)
        make_users(connection)
        with Heat(executables, new_cloud.keystone, rabbitmq.fresh_url(), postgresql.fresh_url(), OUTSIDE) as heat:
            service = connection.identity.create_service(type="orchestration", name="heat")
            url = f"{heat.url}/v1/%(project_id)s"
            connection.identity.create_endpoint(service_id=service.id, interface="public", url=url, region_id=REGION)
            with Engine(executables, heat.conf) as engine, host.open_to_guests(heat.ports[0]):
                try:
                    live(connect(new_cloud.keystone), new_cloud, heat)
                except BaseException:
                    print(heat.log[-3000:], engine.log[-10000:], host.log[-6000:], sep="\n")
                    raise
    return 0


def live(connection: Any, made: Cloud, api: Heat) -> None:
    """The life of a stack. Raises AssertionError if a step fails."""
    heat, before = connection.orchestration, left(connection)
    template = TEMPLATE.read_text()
    given = {"image": made.images[0], "flavor": made.flavors[0], "public_key": PUBLIC_KEY}

    def done(stack: Any, action: str) -> Any:
        shown = wait_for(f"{action} of the stack", lambda: ended(heat.get_stack(stack.id), action), WITHIN)
        events = [(each.resource_name, each.status_reason) for each in heat.resources(stack) if "FAILED" in each.status]
        assert shown.status == f"{action}_COMPLETE", (shown.status, shown.status_reason, events)
        print(f"ok {action.lower()}", flush=True)
        return shown

    wait_for("the engine", lambda: listens(heat), WITHIN)
    stack = heat.create_stack(name="minova", template=template, parameters=given, timeout_mins=15)
    server = wait_for(
        "the server", lambda: next(connection.compute.servers(name="^heat$", status="ACTIVE"), None), WITHIN
    )
    try:
        shown = done(stack, "CREATE")
    except AssertionError:
        print(console(connection, server)[-4000:])
        raise
    # The guest has executed its user data, and no other process has. It prints that when its connection has ended.
    said = wait_for("what the guest says", lambda: said_by_guest(connection, server), 60)
    signals = [line for line in api.log.splitlines() if re.search(r"POST .*/signal", line)]
    print("ok signal of the guest:", said, *signals[-1:], flush=True)
    outputs = {each["output_key"]: each["output_value"] for each in shown.outputs}
    assert outputs["address"].startswith("10.94.0."), outputs
    assert "from the guest" in outputs["said"], outputs
    print("ok outputs", flush=True)
    heat.update_stack(stack.id, template=template, parameters=given | {"note": "second"})
    done(stack, "UPDATE")
    assert connection.compute.get_server(server.id).metadata == {"note": "second"}
    heat.update_stack(stack.id, template=template, parameters=given | {"note": "second", "flavor": made.flavors[1]})
    done(stack, "UPDATE")
    resized = connection.compute.get_server(server.id)
    assert (resized.status, resized.flavor.name) == ("ACTIVE", connection.compute.get_flavor(made.flavors[1]).name)
    print("ok resized", flush=True)
    for action in ("suspend", "resume", "check"):
        getattr(heat, f"{action}_stack")(stack.id)
        done(stack, action.upper())
    heat.delete_stack(stack.id)
    wait_for("the deletion of the stack", lambda: not [each for each in heat.stacks() if each.id == stack.id], WITHIN)
    after = left(connection)
    assert after == before, (before, after)
    print("ok delete", flush=True)


def listens(heat: Any) -> bool:
    answer = heat.get("/services")
    return answer.ok and any(each["status"] == "up" for each in answer.json()["services"])


def ended(stack: Any, action: str) -> Any:
    return stack if stack.status in {f"{action}_COMPLETE", f"{action}_FAILED"} else None


def said_by_guest(connection: Any, server: Any) -> str | None:
    """Returns the guest's line about the answer to its signal."""
    signal_match = re.search(r"^SIGNALLED HTTP/1\.\d 200.*$", console(connection, server), re.MULTILINE)
    return None if signal_match is None else signal_match[0]


def console(connection: Any, server: Any) -> str:
    return str(connection.compute.get_server_console_output(server)["output"]).replace("\r", "")


def left(connection: Any) -> dict[str, list[str]]:
    """Names or ids of what a stack makes."""
    network, compute = connection.network, connection.compute
    kinds = {
        "servers": compute.servers(),
        "groups": compute.server_groups(),
        "keys": compute.keypairs(),
        "networks": network.networks(),
        "subnets": network.subnets(),
        "ports": network.ports(),
        "security groups": network.security_groups(),
        "users": connection.identity.users(),
    }
    return {kind: sorted(each.id for each in resources) for kind, resources in kinds.items()}


if __name__ == "__main__":
    sys.exit(main())
