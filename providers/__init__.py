"""What the world looks like and how we touch it: facts, errors, ports and their adapters. Never imports `elastic`."""
