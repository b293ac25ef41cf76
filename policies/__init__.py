"""Policy files, calendars and the generated schema: data only."""
