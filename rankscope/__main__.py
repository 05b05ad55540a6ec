"""`python -m rankscope`."""

import sys

from rankscope.ui.cli import main

if __name__ == "__main__":
    sys.exit(main())
