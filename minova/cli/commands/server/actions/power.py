"""`minova server stop|start|reboot|pause|...`."""

import argparse
from typing import Any

from minova.cli.commands.server.actions.action import ServerActionCommand


class ServerStop(ServerActionCommand):
    """Stop servers: their guests shut down, and keep their disks and their place."""

    key = "os-stop"
    status = "SHUTOFF"
    done = "stopped"


class ServerStart(ServerActionCommand):
    """Start servers that are stopped."""

    key = "os-start"
    status = "ACTIVE"
    done = "started"


class ServerReboot(ServerActionCommand):
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


class ServerPause(ServerActionCommand):
    """Pause servers: their guests keep memory and place, and do not run."""

    key = "pause"
    status = "PAUSED"
    done = "paused"


class ServerUnpause(ServerActionCommand):
    """Let servers that are paused run on."""

    key = "unpause"
    status = "ACTIVE"
    done = "unpaused"


class ServerSuspend(ServerActionCommand):
    """Suspend servers: the memory of their guests is written to the host's disk."""

    key = "suspend"
    status = "SUSPENDED"
    done = "suspended"


class ServerResume(ServerActionCommand):
    """Let servers that are suspended run on."""

    key = "resume"
    status = "ACTIVE"
    done = "resumed"


class ServerDumpCreate(ServerActionCommand):
    """Interrupt the guests of servers (NMI), so that they write a crash dump if they are set up to."""

    key = "trigger_crash_dump"
    status = None
    done = "interrupted"
