"""The functions behind the installed commands. Each imports its program when it is called, and says which packages to install
if a package of its role is missing.
"""

import importlib
import sys
from collections.abc import Callable
from typing import Any

# By command: the module whose `main` it runs, and the extra of setup.cfg with its packages.
_PROGRAMS = {
    "minova": ("minova.cli.main", "cli"),
    "minova-api": ("minova.cmd.api", "api"),
    "minova-compute": ("minova.cmd.compute", "compute"),
    "minova-conductor": ("minova.cmd.conductor", "conductor"),
    "minova-consoleproxy": ("minova.cmd.consoleproxy", "consoleproxy"),
    "minova-manage": ("minova.cmd.manage", "manage"),
    "minova-metadata": ("minova.cmd.metadata", "metadata"),
    "minova-network-helper": ("minova.cmd.network_helper", "compute"),
    "minova-placement-api": ("minova.cmd.placement_api", "placement-api"),
    "minova-scheduler": ("minova.cmd.scheduler", "scheduler"),
    "minova-standalone": ("minova.cmd.standalone", "standalone"),
}


def _runner(command: str) -> Callable[[], Any]:
    module, extra = _PROGRAMS[command]

    def run() -> Any:
        try:
            program = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == "minova":
                raise
            sys.exit(
                f"{command}: the Python package {error.name!r} is missing. Install the packages of this role: "
                f"pip install 'minova[{extra}]'"
            )
        return program.main()

    return run


cli = _runner("minova")
api = _runner("minova-api")
compute = _runner("minova-compute")
conductor = _runner("minova-conductor")
consoleproxy = _runner("minova-consoleproxy")
manage = _runner("minova-manage")
metadata = _runner("minova-metadata")
network_helper = _runner("minova-network-helper")
placement_api = _runner("minova-placement-api")
scheduler = _runner("minova-scheduler")
standalone = _runner("minova-standalone")
