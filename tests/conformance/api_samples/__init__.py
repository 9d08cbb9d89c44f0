"""Nova's API samples, over HTTP against minova. See tests/conformance/README.md."""
