"""Runs calls of Apache Libcloud's driver for OpenStack, and prints one line for each: `ok NAME`, `FAIL NAME ERROR`, or
`refused NAME REASON`.

    python program.py KEYSTONE_URL PASSWORD REGION
    python program.py MINOVA_URL            without Keystone

Run by Libcloud's own interpreter: it imports nothing of minova.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from libcloud.compute.drivers.openstack import OpenStack_2_NodeDriver  # type: ignore[import-not-found, unused-ignore]

# Seconds until a server has reached a state.
WITHIN = 120.0
# (a text of the error, why the call is refused) by call.
REFUSED = {"ex_rebuild": ("flavorRef", "Libcloud sends flavorRef, which Nova refuses, too")}


def main(url: str, password: str = "", region: str = "") -> int:
    login = {
        "ex_force_auth_url": url.removesuffix("/").removesuffix("/v3"),
        "ex_force_auth_version": "3.x_password",
        "ex_tenant_name": "admin",
        "ex_domain_name": "Default",
    }
    if region:
        login["ex_force_service_region"] = region
    else:
        login |= {
            "ex_force_auth_token": "none",
            "ex_force_base_url": f"{url}/v2.1",
            "ex_force_image_url": url,
            "ex_force_network_url": f"{url}/network",
        }
    driver_class: Any = OpenStack_2_NodeDriver
    driver = driver_class("admin", password, **login)
    failed = 0

    def call(name: str, work: Callable[[], Any]) -> Any:
        nonlocal failed
        try:
            answer = work()
        except Exception as error:  # noqa: BLE001 - Libcloud raises bare ones, and every one is a result
            text, reason = REFUSED.get(name, ("", ""))
            if text and text in str(error):
                print(f"refused {name} {reason}", flush=True)
                return None
            failed += 1
            print(f"FAIL {name} {type(error).__name__}: {error}", flush=True)
            return None
        print(f"ok {name}", flush=True)
        return answer

    sizes, images = call("list_sizes", driver.list_sizes), call("list_images", driver.list_images)
    sizes.sort(key=lambda size: (size.disk, size.ram))  # a resize makes no disk smaller
    networks = call("ex_list_networks", driver.ex_list_networks)
    call("list_locations", driver.list_locations)
    call("ex_get_size", lambda: driver.ex_get_size(sizes[0].id))
    call("ex_get_size_extra_specs", lambda: driver.ex_get_size_extra_specs(sizes[0].id))
    call("get_image", lambda: driver.get_image(images[0].id))
    call("ex_list_subnets", driver.ex_list_subnets)
    call("ex_list_ports", driver.ex_list_ports)
    call("ex_list_floating_ips", driver.ex_list_floating_ips)
    call("ex_list_routers", driver.ex_list_routers)
    key_pairs(driver, call)
    security_groups(driver, call)
    arguments = {"size": sizes[0], "image": images[0], "networks": networks[:1], "ex_admin_pass": "s3cret"}
    server = call("create_node", lambda: driver.create_node("libcloud", **arguments))
    call(
        "wait_until_running",
        lambda: driver.wait_until_running([server], wait_period=1, timeout=WITHIN, ssh_interface="private_ips"),
    )
    life(driver, call, server, sizes, images)
    return int(failed > 0)


def key_pairs(driver: Any, call: Callable[[str, Callable[[], Any]], Any]) -> None:
    call("create_key_pair", lambda: driver.create_key_pair("libcloud"))
    call("list_key_pairs", driver.list_key_pairs)
    key = call("get_key_pair", lambda: driver.get_key_pair("libcloud"))
    call("delete_key_pair", lambda: driver.delete_key_pair(key))


def security_groups(driver: Any, call: Callable[[str, Callable[[], Any]], Any]) -> None:
    call("ex_list_security_groups", driver.ex_list_security_groups)
    group = call("ex_create_security_group", lambda: driver.ex_create_security_group("libcloud", "a group"))
    rule = call(
        "ex_create_security_group_rule", lambda: driver.ex_create_security_group_rule(group, "tcp", 22, 22, "0.0.0.0/0")
    )
    call("ex_delete_security_group_rule", lambda: driver.ex_delete_security_group_rule(rule))
    call("ex_delete_security_group", lambda: driver.ex_delete_security_group(group))


def life(
    driver: Any, call: Callable[[str, Callable[[], Any]], Any], server: Any, sizes: list[Any], images: list[Any]
) -> None:
    def reach(vm_state: str) -> None:
        until = time.monotonic() + WITHIN
        while time.monotonic() < until:
            shown = driver.ex_get_node_details(server.id)
            if (shown.extra["vm_state"], shown.extra["task_state"]) == (vm_state, None):
                return
            time.sleep(0.5)
        raise TimeoutError(f"the server is not {vm_state}")

    def act(name: str, vm_state: str, *more: Any) -> None:
        def work() -> None:
            getattr(driver, name.partition(" ")[0])(server, *more)
            reach(vm_state)

        call(name, work)

    call("list_nodes", driver.list_nodes)
    call("ex_get_node_details", lambda: driver.ex_get_node_details(server.id))
    call("ex_set_metadata", lambda: driver.ex_set_metadata(server, {"a": "b"}))
    call("ex_get_metadata", lambda: driver.ex_get_metadata(server))
    call("ex_set_server_name", lambda: driver.ex_set_server_name(server, "renamed"))
    call("ex_get_console_output", lambda: driver.ex_get_console_output(server))
    act("ex_pause_node", "paused")
    act("ex_unpause_node", "active")
    act("ex_suspend_node", "suspended")
    act("ex_resume_node", "active")
    act("ex_stop_node", "stopped")
    act("ex_start_node", "active")
    act("reboot_node", "active")
    act("ex_hard_reboot_node", "active")
    act("ex_rescue", "rescued")
    act("ex_unrescue", "active")
    act("ex_rebuild", "active", images[0])
    act("ex_resize", "resized", sizes[1])
    act("ex_revert_resize", "active")
    act("ex_resize once more", "resized", sizes[1])
    act("ex_confirm_resize", "active")
    call("create_image", lambda: driver.create_image(server, "snapshot"))
    call("destroy_node", lambda: driver.destroy_node(server))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
