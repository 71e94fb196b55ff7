"""The names of :mod:`gpnn.storage`, where training and what follows it look for them."""

from gpnn.storage.atomic import finite, replace_file, sync_folder, write_json, write_text
from gpnn.storage.tensors import write_tensors

__all__ = ["finite", "replace_file", "sync_folder", "write_json", "write_tensors", "write_text"]
