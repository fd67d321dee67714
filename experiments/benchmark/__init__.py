"""How long rounds take, and for what: `python -m experiments.benchmark`."""
