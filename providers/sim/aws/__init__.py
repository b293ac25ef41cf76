"""An AWS in memory and what may go wrong with it: for tests, scale and demos. The layer over moto shares the latter."""
