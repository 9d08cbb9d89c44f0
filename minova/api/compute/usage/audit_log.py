"""`/os-instance_usage_audit_log`: the usage that Nova's hosts have counted in the last month.

minova's hosts run no such task: usage is computed from the rows on request (`tenant_usage.py`). The answer is Nova's
for hosts with `instance_usage_audit` off: no host has run the task.
"""

from datetime import datetime
from typing import Any

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.db.hosts import services

COMPUTE = "minova-compute"


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"instance_usage_audit_logs": _log(api, times.now())}


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    text = call.path["before_timestamp"]
    before = times.with_form(text, "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f")
    if before is None:
        raise errors.BadRequest(f"Invalid timestamp for date {text[:64]}")
    return {"instance_usage_audit_log": _log(api, before)}


def last_month(before: datetime) -> tuple[datetime, datetime]:
    """Returns the last whole calendar month before the time. This is Nova's default; Nova has other periods, too."""
    end = before.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    begin = end.replace(year=end.year - 1, month=12) if end.month == 1 else end.replace(month=end.month - 1)
    return begin, end


def _log(api: ComputeApiCollaborators, before: datetime) -> dict[str, Any]:
    begin, end = last_month(before)
    with api.db.read() as session:
        hosts = sorted(key.host for key in services.keys(session) if key.binary == COMPUTE)
    done = "ALL" if not hosts else f"0 of {len(hosts)}"
    return {
        "period_beginning": str(begin),
        "period_ending": str(end),
        "num_hosts": len(hosts),
        "num_hosts_done": 0,
        "num_hosts_running": 0,
        "num_hosts_not_run": len(hosts),
        "hosts_not_run": hosts,
        "total_instances": 0,
        "total_errors": 0,
        "overall_status": f"{done} hosts done. 0 errors.",
        "log": {},
    }


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-instance_usage_audit_log",
        rule="os_compute_api:os-instance-usage-audit-log:list",
        handler=index,
        answer={"instance_usage_audit_logs": dict[str, Any]},
    ),
    Route(
        method="GET",
        path="/v2.1/os-instance_usage_audit_log/{before_timestamp}",
        rule="os_compute_api:os-instance-usage-audit-log:show",
        handler=show,
        answer={"instance_usage_audit_log": dict[str, Any]},
    ),
)
