"""Which file an error of the disk is about: the system tells it when a file is opened, not when it is written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # not the fault of who gave the file's name


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Let an error of the disk that names no file name `path`, in the system's own words.

    >>> with naming("model.safetensors"):
    ...     raise OSError(errno.ENOSPC, "writing failed")
    Traceback (most recent call last):
        ...
    OSError: [Errno 28] No space left on device: 'model.safetensors'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in (*DISK_FAILURES, errno.EROFS):
            error.filename, error.strerror = str(path), os.strerror(error.errno)
        raise
