"""Apache Libcloud, unchanged, against minova with Keystone and Glance."""
