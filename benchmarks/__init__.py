"""Measurements: each module prints one table; README.md holds the last figures and how they were made."""
