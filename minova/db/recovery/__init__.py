"""Recovery of databases: the identity and history of a cloud, and the services that watch them."""
