"""Commands of networks, their addresses and their security groups."""
