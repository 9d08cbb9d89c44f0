"""`minova server add|remove network|port|fixed ip`: interfaces of servers that exist."""

import argparse
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

from minova.cli import find
from minova.cli.base import Command, ShowOne
from minova.cli.client import COMPUTE, Json, part
from minova.cli.errors import CliError, UsageError
from minova.cli.output.columns import Words

Shown = tuple[Sequence[str], Iterable[Any]]


def interfaces_path(server: Json, port_id: str = "") -> str:
    path = f"{COMPUTE}/servers/{part(server['id'])}/os-interface"
    return f"{path}/{part(port_id)}" if port_id else path


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER", help="name or ID")


def _add_tag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tag", metavar="TAG", help="of the interface")


def _attachment(parsed_args: argparse.Namespace, **fields: Any) -> Json:
    return {"interfaceAttachment": fields | ({"tag": parsed_args.tag} if parsed_args.tag else {})}


class ServerAddNetwork(Command):
    """Give a server an interface on a network, and wait until it has it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_server(parser)
        parser.add_argument("network", metavar="NETWORK", help="name or ID")
        _add_tag(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        server = find.server(self.client, parsed_args.server)
        network = find.network(self.client, parsed_args.network)
        self.client.post(interfaces_path(server), _attachment(parsed_args, net_id=network["id"]))


class ServerAddPort(Command):
    """Give a server the interface of a port, and wait until it has it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_server(parser)
        parser.add_argument("port", metavar="PORT", help="name or ID of a port that is free")
        _add_tag(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        server = find.server(self.client, parsed_args.server)
        port = find.port(self.client, parsed_args.port)
        self.client.post(interfaces_path(server), _attachment(parsed_args, port_id=port["id"]))


class ServerAddFixedIp(ShowOne):
    """Give a server an interface on a network with an address, and show it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_server(parser)
        parser.add_argument("network", metavar="NETWORK", help="name or ID")
        parser.add_argument("--fixed-ip-address", metavar="ADDRESS", help="(default: the next free one)")
        _add_tag(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Shown:
        server = find.server(self.client, parsed_args.server)
        network = find.network(self.client, parsed_args.network)
        address = parsed_args.fixed_ip_address
        fixed = {"fixed_ips": [{"ip_address": address}]} if address else {}
        answer = self.client.post(interfaces_path(server), _attachment(parsed_args, net_id=network["id"], **fixed))
        attachment = answer["interfaceAttachment"]
        addresses = [
            f"ip_address='{fixed_ip['ip_address']}', subnet_id='{fixed_ip['subnet_id']}'"
            for fixed_ip in attachment["fixed_ips"]
        ]
        fields = {
            "Port ID": attachment["port_id"],
            "Server ID": server["id"],
            "Network ID": attachment["net_id"],
            "MAC Address": attachment["mac_addr"],
            "Port State": attachment["port_state"],
            "Fixed IPs": Words(addresses),
            **({"Tag": attachment.get("tag")} if parsed_args.tag else {}),
        }
        return self.dict2columns(fields)


class ServerRemoveNetwork(Command):
    """Take all interfaces on a network from a server."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_server(parser)
        parser.add_argument("network", metavar="NETWORK", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        server = find.server(self.client, parsed_args.server)
        network = find.network(self.client, parsed_args.network)
        of_server = self.client.get(interfaces_path(server))["interfaceAttachments"]
        on_network = [attachment["port_id"] for attachment in of_server if attachment["net_id"] == network["id"]]
        if not on_network:
            raise CliError(f"Server {parsed_args.server} has no interface on network {parsed_args.network}.")
        for port_id in on_network:
            self.client.delete(interfaces_path(server, port_id))


class ServerRemovePort(Command):
    """Take the interface of a port from a server."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_server(parser)
        parser.add_argument("port", metavar="PORT", help="name or ID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        server = find.server(self.client, parsed_args.server)
        port = find.port(self.client, parsed_args.port)
        self.client.delete(interfaces_path(server, port["id"]))


class ServerRemoveFixedIp(Command):
    """Take an address from the port of a server. The interface stays."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_server(parser)
        parser.add_argument("address", metavar="ADDRESS")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        try:
            address = str(ipaddress.ip_address(parsed_args.address))
        except ValueError:
            raise UsageError(f"'{parsed_args.address}' is not an address such as 192.0.2.10.") from None
        server = find.server(self.client, parsed_args.server)
        # Microversion 2.43 is the last that has this action.
        action = {"removeFixedIp": {"address": address}}
        self.client.at("2.43").post(f"{COMPUTE}/servers/{part(server['id'])}/action", action)
