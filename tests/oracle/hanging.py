"""`python -m tests.oracle.hanging WORDS…`: gpnn, whose process 0 hangs while it prepares the shards."""

import os
import threading
from typing import Any, NoReturn

from gpnn.build import run
from gpnn.cli import main


def hang(*words: Any, **settings: Any) -> NoReturn:
    """Wait for what never comes, as a read of a file system that does not answer."""
    threading.Event().wait()
    raise AssertionError


if __name__ == "__main__":
    if os.environ.get("RANK") == "0":
        run.write_data = hang
    main()
