"""What reinforcement learning adds to a round, measured: `python -m experiments.overhead`."""
