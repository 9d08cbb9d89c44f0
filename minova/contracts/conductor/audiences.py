"""Which services call the conductor, and on which topic."""

from minova.contracts.base import Role, called_by

API_TOPIC, API_TOPIC_SINCE = "conductor_api", "1.7"
BY_API = called_by(Role.API, topic=API_TOPIC, topic_since=API_TOPIC_SINCE)
# Each method names the host that the compute speaks for.
BY_COMPUTES = called_by(Role.COMPUTE, speaks_for_host=True, shows_life=True)
