"""`python -m dovetail.cli` is the command where the script is not on the path."""

import sys

from . import main

sys.exit(main())
