"""The figures of a report, one a file: functions of rows (and of run.json) that return a matplotlib figure."""
