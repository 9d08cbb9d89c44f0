"""`minova server stop|start|reboot|...`: one class for each server action."""

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple

from minova.cli import find
from minova.cli.base import Command
from minova.cli.client import COMPUTE, Client, Json, part
from minova.cli.commands.server.create.command import user_data
from minova.cli.commands.server.delete import add_all_projects, find_all
from minova.cli.errors import ApiError, CliError
from minova.cli.output.columns import printable
from minova.cli.parser import add_wait, key_value
from minova.cli.wait import Gone, Progress, TimedOut, failed_action, wait_for_status


class Goal(NamedTuple):
    """What --wait waits for: the action by its key, the statuses that the server may have then, None: any, and what messages say of it."""

    key: str
    statuses: frozenset[str] | None
    done: str


class ServerAction(Command):
    """`key`: in the body of the request; `status`: the server's when it is done, None: any; `done`: what the help says of it."""

    key: ClassVar[str]
    status: ClassVar[str | None]
    done: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "servers", nargs="+", metavar="SERVER", help="name or ID; if one is unknown, none is changed"
        )
        add_all_projects(parser)
        add_wait(parser, f"until they are {self.done}", 300.0)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        servers = self.find_each(parsed_args)
        arguments = {uuid: self.arguments_for(server, parsed_args) for uuid, server in servers.items()}
        for uuid, server in servers.items():
            answer = self.client.post(f"{COMPUTE}/servers/{part(uuid)}/action", {self.key: arguments[uuid]})
            self.show(server, answer)
        if parsed_args.wait:
            progress = Progress.on(sys.stderr)
            for server in servers.values():
                self._wait(server, progress, parsed_args.timeout)

    def find_each(self, parsed_args: argparse.Namespace) -> dict[str, Json]:
        """Returns the servers by their IDs, each once."""
        look = partial(self.find, every=parsed_args.all_projects)
        return {
            server["id"]: server for server in find_all(self.client, parsed_args.servers, "Nothing was changed.", look)
        }

    def find(self, client: Client, name_or_id: str, *, every: bool) -> Json:
        return find.server(client, name_or_id, every=every)

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        """Returns the value of the action's key in the request."""
        return None

    def arguments_for(self, server: Json, parsed_args: argparse.Namespace) -> Any:
        """Returns the value for one of the servers."""
        return self.arguments(parsed_args)

    def show(self, server: Json, answer: Any) -> None:
        """Shows information in the response to the user, besides the acceptance."""

    def _wait(self, server: Json, progress: Progress, timeout: float) -> None:
        statuses = None if self.status is None else frozenset({self.status})
        self.wait_for(Goal(self.key, statuses, self.done), server, progress, timeout)

    def wait_for(self, goal: "Goal", server: Json, progress: Progress, timeout: float) -> None:
        """Waits for the goal. Raises CliError if the server does not reach it."""
        try:
            last = wait_for_status(self.client, server, progress, timeout)
        except TimedOut as late:
            raise CliError(f"Waited {timeout:g} s: {late}. The request is still in progress.") from None
        except Gone:
            raise CliError(f"Server {server['name']} was deleted meanwhile.") from None
        except KeyboardInterrupt:
            print("\nStopped waiting: the requests are still in progress.", file=sys.stderr)
            raise
        failure = self._failure(server, goal.key)
        if failure or (goal.statuses is not None and last["status"] not in goal.statuses):
            raise CliError(failed_action(last, goal.done, failure))

    def _failure(self, server: Json, key: str) -> str | None:
        """Returns why the action failed; a server may be ACTIVE although its reboot failed. None if it did not fail, or
        if the API does not report it.
        """
        try:
            listed = self.client.get(f"{COMPUTE}/servers/{part(server['id'])}/os-instance-actions")["instanceActions"]
        except ApiError:  # a policy may forbid it, and an API of 0.1.0 has none
            return None
        newest: Json = listed[0] if listed else {}
        return newest.get("message") if newest.get("action") == key.removeprefix("os-") else None


class ServerStop(ServerAction):
    """Stop servers: their guests shut down, and keep their disks and their place."""

    key = "os-stop"
    status = "SHUTOFF"
    done = "stopped"


class ServerStart(ServerAction):
    """Start servers that are stopped."""

    key = "os-start"
    status = "ACTIVE"
    done = "started"


class ServerReboot(ServerAction):
    """Reboot servers."""

    key = "reboot"
    status = "ACTIVE"
    done = "rebooted"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        kinds = parser.add_mutually_exclusive_group()
        soft = "the guest shuts itself down and is started, the default; if it does not, it is rebooted hard"
        kinds.add_argument("--soft", dest="type", action="store_const", const="SOFT", default="SOFT", help=soft)
        kinds.add_argument(
            "--hard", dest="type", action="store_const", const="HARD", help="as if the power were switched off and on"
        )
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        return {"type": parsed_args.type}


class ServerPause(ServerAction):
    """Pause servers: their guests keep memory and place, and do not run."""

    key = "pause"
    status = "PAUSED"
    done = "paused"


class ServerUnpause(ServerAction):
    """Let servers that are paused run on."""

    key = "unpause"
    status = "ACTIVE"
    done = "unpaused"


class ServerSuspend(ServerAction):
    """Suspend servers: the memory of their guests is written to the host's disk."""

    key = "suspend"
    status = "SUSPENDED"
    done = "suspended"


class ServerResume(ServerAction):
    """Let servers that are suspended run on."""

    key = "resume"
    status = "ACTIVE"
    done = "resumed"


class ServerRescue(ServerAction):
    """Rescue servers: their guests boot from a fresh disk, and their root disk is the second one."""

    key = "rescue"
    status = "RESCUE"
    done = "rescued"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--image", help="name or ID of the image to boot from (default: the server's own)")
        parser.add_argument("--password", help="for guests that take one (default: one is made up and shown)")
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        image = {"rescue_image_ref": find.image(self.client, parsed_args.image)["id"]} if parsed_args.image else {}
        password = {"adminPass": parsed_args.password} if parsed_args.password else {}
        return image | password

    def show(self, server: Json, answer: Any) -> None:
        if "adminPass" in answer:
            print(f"{printable(server['name'])}: admin password {printable(answer['adminPass'])}")


class ServerUnrescue(ServerAction):
    """Let servers that are rescued boot from their root disk again."""

    key = "unrescue"
    status = "ACTIVE"
    done = "unrescued"


class ServerRebuild(ServerAction):
    """Give servers new disks, from an image, and what else is named; addresses, size and place stay. What is on the disks is lost."""

    key = "rebuild"
    status = None
    done = "rebuilt"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--image", help="name or ID of the image (default: the server's own)")
        parser.add_argument("--name", help="a new name")
        parser.add_argument("--description", help="a new description")
        parser.add_argument("--hostname", help="what the guest is called from now on")
        parser.add_argument(
            "--password", help="the administrator's, for a server with a config drive (default: a new one)"
        )
        parser.add_argument(
            "--property",
            type=key_value,
            action="append",
            metavar="KEY=VALUE",
            help="metadata, in place of those of before; may be repeated",
        )
        keys = parser.add_mutually_exclusive_group()
        keys.add_argument("--key-name", metavar="NAME", help="a key pair of yours")
        keys.add_argument("--no-key-name", "--key-unset", action="store_true", help="no key pair any more")
        data = parser.add_mutually_exclusive_group()
        data.add_argument("--user-data", metavar="FILE", help="a script or cloud-config that the guest runs")
        data.add_argument("--no-user-data", action="store_true", help="no user data any more")
        ephemeral = parser.add_mutually_exclusive_group()
        ephemeral.add_argument(
            "--preserve-ephemeral",
            action="store_true",
            default=None,
            help="keep what is on the ephemeral disk: minova's hosts cannot, and refuse it",
        )
        ephemeral.add_argument(
            "--no-preserve-ephemeral",
            dest="preserve_ephemeral",
            action="store_false",
            help="make the ephemeral disk anew, as without the option",
        )
        certificates = parser.add_mutually_exclusive_group()
        certificates.add_argument(
            "--trusted-image-cert",
            dest="trusted_image_certificates",
            action="append",
            metavar="ID",
            help="a certificate that has to have signed the image: clouds of minova cannot tell, and refuse it",
        )
        certificates.add_argument(
            "--no-trusted-image-certs", action="store_true", help="changes nothing: no server has any"
        )
        volumes = parser.add_mutually_exclusive_group()
        for option in ("--reimage-boot-volume", "--no-reimage-boot-volume"):
            volumes.add_argument(
                option, action="store_true", help="changes nothing: no server of minova boots from a volume"
            )
        return parser

    def arguments_for(self, server: Json, parsed_args: argparse.Namespace) -> Any:
        if parsed_args.image:
            image = find.image(self.client, parsed_args.image)["id"]
        else:
            image = self.client.get(f"{COMPUTE}/servers/{part(server['id'])}")["server"]["image"]["id"]
        given = {
            "name": parsed_args.name,
            "description": parsed_args.description,
            "hostname": parsed_args.hostname,
            "adminPass": parsed_args.password,
            "metadata": dict(parsed_args.property) if parsed_args.property else None,
            "key_name": parsed_args.key_name,
            "user_data": user_data(parsed_args.user_data) if parsed_args.user_data else None,
            "preserve_ephemeral": parsed_args.preserve_ephemeral,
            "trusted_image_certificates": parsed_args.trusted_image_certificates,
        }
        removed = {"key_name": parsed_args.no_key_name, "user_data": parsed_args.no_user_data}
        wanted = {key: value for key, value in given.items() if value is not None}
        return {"imageRef": image, **wanted, **{key: None for key, is_removed in removed.items() if is_removed}}

    def show(self, server: Json, answer: Any) -> None:
        if "adminPass" in answer["server"]:
            print(f"{printable(server['name'])}: admin password {printable(answer['server']['adminPass'])}")


class ServerShelve(ServerAction):
    """Shelve servers: their guests are stopped, and their root disks become images. Clouds remove them from their hosts at once, or later."""

    key = "shelve"
    status = None
    done = "shelved"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--offload",
            action="store_true",
            help="remove them from their hosts, once they are shelved: for administrators, where the cloud does not do it by itself",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        servers = list(self.find_each(parsed_args).values())
        for server in servers:
            if server["status"] not in STATUSES:
                self._ask(server, SHELVED.key)
        if not (parsed_args.wait or parsed_args.offload):
            return
        progress = Progress.on(sys.stderr)
        for server in servers:
            self.wait_for(SHELVED, server, progress, parsed_args.timeout)
        if parsed_args.offload:
            self._offload(servers, progress, parsed_args)

    def _offload(self, servers: Iterable[Json], progress: Progress, parsed_args: argparse.Namespace) -> None:
        """Offloads the servers that are still on their hosts."""
        now = [dict(self.client.get(f"{COMPUTE}/servers/{part(server['id'])}")["server"]) for server in servers]
        shelved = [server for server in now if server["status"] == "SHELVED"]
        for server in shelved:
            self._ask(server, OFFLOADED.key)
        for server in shelved if parsed_args.wait else ():
            self.wait_for(OFFLOADED, server, progress, parsed_args.timeout)

    def _ask(self, server: Json, key: str) -> None:
        self.client.post(f"{COMPUTE}/servers/{part(server['id'])}/action", {key: None})


STATUSES = frozenset({"SHELVED", "SHELVED_OFFLOADED"})
SHELVED = Goal("shelve", STATUSES, ServerShelve.done)
OFFLOADED = Goal("shelveOffload", frozenset({"SHELVED_OFFLOADED"}), "removed from its host")


class ServerUnshelve(ServerAction):
    """Unshelve servers: their guests run again, on their hosts or, where they were removed from them, on others."""

    key = "unshelve"
    status = "ACTIVE"
    done = "unshelved"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        zones = parser.add_mutually_exclusive_group()
        zones.add_argument("--availability-zone", metavar="ZONE", help="where they are to run, and to stay from now on")
        zones.add_argument(
            "--no-availability-zone",
            action="store_true",
            help="in any zone: they are no longer pinned to one",
        )
        parser.add_argument("--host", help="the host that they are to run on (for administrators)")
        return parser

    def arguments(self, parsed_args: argparse.Namespace) -> Any:
        zone = {"availability_zone": parsed_args.availability_zone} if parsed_args.availability_zone else {}
        unpinned = {"availability_zone": None} if parsed_args.no_availability_zone else {}
        host = {"host": parsed_args.host} if parsed_args.host else {}
        return zone | unpinned | host or None


class ServerRestore(ServerAction):
    """Restore servers that were deleted a while ago, if the cloud keeps them so long."""

    key = "restore"
    status = "ACTIVE"
    done = "restored"

    def find(self, client: Client, name_or_id: str, *, every: bool) -> Json:
        return find.server_to_restore(client, name_or_id, every=every)


class ServerDumpCreate(ServerAction):
    """Interrupt the guests of servers (NMI), so that they write a crash dump if they are set up to."""

    key = "trigger_crash_dump"
    status = None
    done = "interrupted"
