"""How processes find those that were started together with them, and not the addresses of processes long gone.

torchrun keeps one store of keys over all its restarts, and a process that reads an address before its owner has
written it anew would call a dead one. So each process puts a token of its own into the store and says which tokens it
sees; when all say the same, these are the tokens of those who are alive, and name a part of the store for them alone.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from datetime import timedelta

import torch.distributed as dist


def meet(rank: int, size: int, timeout: timedelta) -> dist.Store:
    """A store that the processes of this start share with nobody else; collective.

    Args:
        rank: number of this process.
        size: how many there are.
        timeout: how long to wait for the others.

    Raises:
        RuntimeError: when they do not come in time.
    """
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    lead = rank == 0 and not hosted
    store = dist.TCPStore(address, port, size, lead, timeout, wait_for_workers=False, multi_tenant=True)
    return dist.PrefixStore(agree(store, rank, size, timeout), store)


def agree(store: dist.Store, rank: int, size: int, timeout: timedelta) -> str:
    """A name that these processes, and no earlier ones with the same ranks, have in common; collective.

    What all say they see contains each one's own new token, so that none of it was said before.
    """
    store.set(f"gpnn/token/{rank}", uuid.uuid4().hex)
    until = time.monotonic() + timeout.total_seconds()
    while time.monotonic() < until:
        tokens = store.multi_get([f"gpnn/token/{each}" for each in range(size)])
        seen = hashlib.sha256(b",".join(tokens)).hexdigest()
        store.set(f"gpnn/seen/{rank}", seen)
        if set(store.multi_get([f"gpnn/seen/{each}" for each in range(size)])) == {seen.encode()}:
            return f"gpnn/{seen}"
        time.sleep(0.02)
    raise RuntimeError(f"Timed out waiting for {size} processes to meet.")
