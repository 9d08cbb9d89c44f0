"""What a database is recovered by: the identity and the history of its cloud, and who watches them."""
