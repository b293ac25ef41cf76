"""Pure planning: the whole decision. Same inputs, same plan; no clock, log, file, socket, thread or randomness."""
