"""What the executables share."""
