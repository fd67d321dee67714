"""``python -m experiments.report``."""

import sys

from experiments.report.command import main

if __name__ == "__main__":
    sys.exit(main())
