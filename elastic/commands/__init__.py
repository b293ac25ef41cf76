"""The command line, one module a group of commands. Heavy libraries are imported inside the commands."""
