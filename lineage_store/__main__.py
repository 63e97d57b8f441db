"""`python -m lineage_store` runs the program `lineage-store` where its script is not on the PATH."""

import sys

from lineage_store.cli import main

if __name__ == "__main__":
    sys.exit(main())
