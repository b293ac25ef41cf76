"""The status page and health of a running controller, on loopback."""
