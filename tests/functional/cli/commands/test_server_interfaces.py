"""`minova server add|remove network|port|fixed ip` against minova-api itself."""

from typing import Any

from tests.functional.cli.conftest import Cli, json_output, succeed

JSON = ("-f", "json")


def ports_of(minova: Cli, network: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json_output(minova("port", "list", "--network", network, *JSON))
    return rows


def test_a_server_gets_and_loses_interfaces(stocked: Cli) -> None:
    minova = stocked
    succeed(minova("server", "create", "web", "--flavor", "tiny", "--image", "guest"))
    for name, number in (("blue", 1), ("green", 2)):
        succeed(minova("network", "create", name))
        succeed(minova("subnet", "create", name, "--network", name, "--subnet-range", f"10.{number}.0.0/24"))
    succeed(minova("server", "add", "network", "web", "blue", "--tag", "front"))
    succeed(minova("server", "add", "network", "web", "blue"))
    shown = json_output(minova("server", "add", "fixed", "ip", "web", "green", "--fixed-ip-address", "10.2.0.9", *JSON))
    assert [text.split("'")[1] for text in shown["Fixed IPs"]] == ["10.2.0.9"]
    succeed(minova("port", "create", "own", "--network", "green"))
    succeed(minova("server", "add", "port", "web", "own"))
    assert (len(ports_of(minova, "blue")), len(ports_of(minova, "green"))) == (2, 2)

    succeed(minova("server", "remove", "network", "web", "blue"))
    assert ports_of(minova, "blue") == []
    refused = minova("server", "remove", "network", "web", "blue")
    assert (refused.code, "has no interface on network blue" in refused.err) == (1, True)
    succeed(minova("server", "remove", "fixed", "ip", "web", "10.2.0.9"))
    assert json_output(minova("port", "show", shown["Port ID"], *JSON))["fixed_ips"] == []
    refused = minova("server", "remove", "fixed", "ip", "web", "10.2.0.9")
    assert (refused.code, "does not have fixed IP" in refused.err) == (1, True)
    assert minova("server", "remove", "fixed", "ip", "web", "ten").code == 2
    succeed(minova("server", "remove", "port", "web", "own"))
    assert [row["Name"] for row in ports_of(minova, "green")] == ["", "own"]
    refused = minova("server", "remove", "port", "web", "own")
    assert (refused.code, "does not have a port" in refused.err) == (1, True)
