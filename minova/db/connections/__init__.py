"""Settings of clients for each kind of database server."""
