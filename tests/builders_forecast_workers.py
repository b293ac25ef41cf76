"""What forecast workers run in tests: importable by name, for processes are spawned."""

import threading
from datetime import datetime

from elastic.forecasting import Made, make_forecast
from forecast.calendar import Calendar
from forecast.forecaster import DemandSeries, Floats

STUCK, BROKEN = "stuck", "broken"


def trouble_by_key(
    series: DemandSeries, calendar: Calendar, made_at: datetime, horizon: int, fits: dict[str, Floats]
) -> Made:
    """A fit that never ends, one that breaks, else the real thing; by the key."""
    if series.key == STUCK and len(series.gpus) > 100:
        threading.Event().wait(60)
    if series.key == BROKEN and len(series.gpus) > 100:
        raise RuntimeError("the fit broke")
    return make_forecast(series, calendar, made_at, horizon, fits)
