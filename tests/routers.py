"""The routes of an API are made once in each process of tests, not once for each application: that took half of the CPU time of a
short test of the API, and thousands of them make an application.
"""

from functools import cache
from unittest.mock import patch

from minova.api.http import app


def share() -> None:
    """From now on the applications of one API have their routes in common."""
    patch.object(app, "make_router", cache(app.make_router)).start()
