"""`python -m experiments.overhead`."""

import sys

from experiments.overhead.command import main

if __name__ == "__main__":
    sys.exit(main())
