"""Pure forecasting: demand history in, quantiles out. No clock, file, socket, thread or randomness."""
