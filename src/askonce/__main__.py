"""`python -m askonce`."""

import sys

from askonce.cli import main

if __name__ == "__main__":
    sys.exit(main())
