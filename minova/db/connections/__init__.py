"""What each kind of database server needs of its clients."""
