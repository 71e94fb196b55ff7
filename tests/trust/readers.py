"""Every reader of files that others wrote: valid files to damage, how they are read, and what a sound answer is."""

from __future__ import annotations

from tests.trust.data_readers import DATA_READERS
from tests.trust.reader import Reader
from tests.trust.run_readers import RUN_READERS
from tests.trust.stored_readers import STORED_READERS

READERS: dict[str, Reader] = DATA_READERS | STORED_READERS | RUN_READERS
