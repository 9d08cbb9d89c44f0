"""The files that a guest writes: what may be believed of a disk."""
