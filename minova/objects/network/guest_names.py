"""The names by which the resolver of a `local` network knows its guests.

On a network of one project alone a guest has the name of its server. On a shared network, names are in a domain of
each project. Otherwise a project could take a name that guests of others look up, such as `wpad`.
"""

import hashlib
import re

# Neutron's `dns_domain`: no name of the Internet ends with it.
DOMAIN = "openstacklocal"
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def domain_of(project_id: str, owner: str, *, is_shared: bool) -> str:
    """Returns the domain of a project's guests on a network of the project `owner`; empty: their names stand alone."""
    return "" if project_id == owner and not is_shared else f"{_label(project_id)}.{DOMAIN}"


def _label(project_id: str) -> str:
    """Returns the project's id, or a digest of an id that cannot be a label. Each project has another label."""
    if _LABEL.fullmatch(project_id):
        return project_id
    return f"project-{hashlib.sha256(project_id.encode()).hexdigest()[:40]}"
