"""Four processes on loopback that live as long as the test session: starting them costs more than all they do."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch.distributed as dist

WORLD = 4
TIMEOUT = 1200


class Processes:
    """Runs a function in the first `size` of four processes at once and gives what each returned."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed", "torch_geometric.data", "gpnn.train"])  # read once for all
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # on a port that was free
        self.asked = 0
        self.pipes, self.workers = [], []
        for rank in range(WORLD):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(rank, self.store.port, theirs), daemon=True)
            worker.start()
            self.pipes.append(ours)
            self.workers.append(worker)

    def __call__(self, function: Callable[..., Any], *arguments: Any, size: int = WORLD) -> list[Any]:
        """What `function(group, *arguments)` returned in each process, by rank."""
        self.asked += 1
        for pipe in self.pipes[:size]:
            pipe.send((self.asked, function, arguments, size))
        replies = [self._reply(rank, size) for rank in range(size)]
        for failed, reply in replies:
            if failed:
                raise AssertionError(reply)
        return [reply for _, reply in replies]

    def _reply(self, rank: int, size: int) -> tuple[bool, Any]:
        """What a process answers to the last question; late answers to earlier ones are passed over."""
        while self.pipes[rank].poll(TIMEOUT):
            number, *reply = self.pipes[rank].recv()
            if number == self.asked:
                return reply[0], reply[1]
        raise TimeoutError(f"Process {rank} of {size} did not answer in {TIMEOUT} seconds.")

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for worker in self.workers:
            worker.kill()
            worker.join()


def _work(rank: int, port: int, pipe: Connection) -> None:
    import torch

    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD, timeout=timedelta(seconds=TIMEOUT))
    groups = {size: dist.new_group(list(range(size))) for size in (1, 2, WORLD)}
    while True:
        try:
            number, function, arguments, size = pipe.recv()
        except EOFError:
            return
        try:
            from gpnn.distributed import ProcessGroup

            pipe.send((number, False, function(ProcessGroup(groups[size]), *arguments)))
        except BaseException:
            pipe.send((number, True, f"process {rank}: {traceback.format_exc()}"))
