"""`python -m dovetail.cli` runs the command where the `dovetail` script is not on the path."""

import sys

from . import main

sys.exit(main())
