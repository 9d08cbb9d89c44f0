"""Neutron from its package: `python -P neutron_process.py CONF PORT` of .venv/openstack serves.

The folder of CONF gets a database with the tables of the newest release: its migrations are not for SQLite.
POST /agents-of-tests lets an agent send what real ones send, over Neutron's RPC.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cheroot import wsgi
from oslo_config import cfg
from sqlalchemy import create_engine

PACKAGE = Path(sys.prefix)
PATH = "/agents-of-tests"


class Agents:
    def __init__(self, application: Any) -> None:
        from neutron.agent.rpc import PluginApi, PluginReportStateAPI  # noqa: PLC0415
        from neutron.conf.agent.common import register_agent_state_opts_helper  # noqa: PLC0415
        from neutron_lib import context  # noqa: PLC0415
        from neutron_lib.agent import topics  # noqa: PLC0415

        register_agent_state_opts_helper(cfg.CONF)
        self._application = application
        self._reports = PluginReportStateAPI(topics.REPORTS)
        self._plugin = PluginApi(topics.PLUGIN)
        self._context = context.get_admin_context_without_session()

    def __call__(self, env: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if env["PATH_INFO"] != PATH:
            answer: Iterable[bytes] = self._application(env, start_response)
            return answer
        binding_request = json.loads(env["wsgi.input"].read(int(env["CONTENT_LENGTH"])))
        self._report(binding_request["host"])
        if "port_id" in binding_request:
            names = {
                "device": binding_request["port_id"],
                "agent_id": f"ovs-{binding_request['host']}",
                "host": binding_request["host"],
            }
            self._plugin.get_device_details(self._context, **names)
            self._plugin.update_device_up(self._context, **names)
        start_response("204 No Content", [])
        return []

    def _report(self, host: str) -> None:
        state = {
            "binary": "neutron-openvswitch-agent",
            "host": host,
            "topic": "N/A",
            "agent_type": "Open vSwitch agent",
            "configurations": {"bridge_mappings": {"physnet1": "br-ex"}, "tunnel_types": [], "datapath_type": "system"},
            "start_flag": True,
        }
        self._reports.report_state(self._context, state, use_call=True)


def serve(conf: Path, port: int) -> None:
    from neutron.db.migration.models import head  # noqa: PLC0415

    database = conf.parent / "neutron.sqlite"
    if not database.exists():
        engine = create_engine(f"sqlite:///{database}")
        head.get_metadata().create_all(engine)
        engine.dispose()
    shutil.copyfile(PACKAGE / "etc" / "neutron" / "api-paste.ini", conf.parent / "paste.ini")
    os.environ |= {"OS_NEUTRON_CONFIG_DIR": str(conf.parent), "OS_NEUTRON_CONFIG_FILES": conf.name}
    sys.argv = ["neutron-api"]
    from neutron.wsgi.api import application  # noqa: PLC0415
    from neutron_lib.plugins import directory  # noqa: PLC0415

    plugin = directory.get_plugin()
    plugin.start_rpc_listeners()
    plugin.start_rpc_state_reports_listener()
    wsgi.Server(("127.0.0.1", port), Agents(application), numthreads=8).start()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
