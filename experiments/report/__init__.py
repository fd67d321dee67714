"""Tables, report.md and figures of studies, from their rows and run.json: `python -m experiments.report`."""
