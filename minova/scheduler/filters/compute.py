"""ComputeFilter: hosts whose compute service is up and enabled, and whose reports are valid."""

from datetime import UTC, datetime

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.hosts.record import ServiceFacts


class ComputeFilter(ClassFilter):
    of = "service"

    def verdict(self, value: ServiceFacts, spec: RequestSpec) -> str | None:
        if value.disabled:
            return f"service disabled: {value.disabled_reason or 'no reason given'}"
        if value.forced_down:
            return "service forced down"
        if value.down_reason is not None:
            return f"service down: {value.down_reason}"
        if value.refused_report is not None:
            return f"its report is not valid: {value.refused_report}"
        if value.silent_since is not None:
            return f"service down since {when(value.silent_since)}" if value.silent_since else "service never reported"
        return None


def when(seconds: float) -> str:
    """Formats a time for users, in UTC."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
