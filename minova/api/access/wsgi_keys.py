"""Keys of the WSGI environment of a request that minova sets."""

# The key of the WSGI environment that holds the service type, as in a catalog, of the requested API.
SERVICE_TYPE = "minova.service_type"
# The key of the WSGI environment that holds the path as the client sent it.
CLIENT_PATH = "minova.client_path"
# The key of the WSGI environment that holds a callable: it waits for the place of the request, by its project. Absent: none is
# needed. Raises ServiceUnavailable if too many requests wait.
ENTER = "minova.enter"
