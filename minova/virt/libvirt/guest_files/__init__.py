"""The files that a guest writes: what may be believed of a disk, and how much a guest may print."""
