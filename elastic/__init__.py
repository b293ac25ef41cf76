"""The controller: observe, forecast, plan, act, record."""
