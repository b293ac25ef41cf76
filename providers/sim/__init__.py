"""The simulated world: a deterministic site, clouds and caches behind the same ports as the real ones."""
