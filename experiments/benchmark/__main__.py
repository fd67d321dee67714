"""`python -m experiments.benchmark`."""

import sys

from experiments.benchmark.command import main

if __name__ == "__main__":
    sys.exit(main())
