"""`minova server create --dry-run`: where servers would go, and why; nothing is written."""

from collections import Counter

from minova.cli.client import COMPUTE, Client, Json
from minova.cli.output import diagnosis as decision


def ask(client: Client, body: Json) -> Json:
    body["server"].pop("return_reservation_id", None)
    return dict(client.post(f"{COMPUTE}/servers/dry-run", body)["dry_run"])


def headline(answer: Json) -> str:
    """What came of it, in one line. Only administrators are told the hosts."""
    count, diagnosis = answer["count"], answer["diagnosis"]
    if not answer["fits"]:
        return f"{'It would not fit' if count == 1 else f'Not all {count} would fit'}. {answer['reason']}"
    them = "It" if count == 1 else f"All {count}"
    places = Counter(decision.place(host, node) for host, node in diagnosis["selected"])
    where = ", ".join(where if count == 1 else f"{where}: {many}" for where, many in places.items())
    return f"{them} would fit{f', on {where}' if where else ''}."
