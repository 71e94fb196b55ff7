"""Doctests of modules that need what this machine does not have are not collected."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["gpnn/kernels/gpu*.py", "gpnn/partition/clustered_gpu.py"]
