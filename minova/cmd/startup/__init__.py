"""Code that all executables share."""
