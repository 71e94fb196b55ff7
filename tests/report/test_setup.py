from dataclasses import replace

from gpnn.report.setup import reproduce


def test_the_command_starts_as_many_processes(record):
    assert reproduce(record).parts[0].text.startswith("gpnn train --config")
    shared = reproduce(replace(record, shares=[{"nodes": 45}, {"nodes": 45}]))
    assert shared.parts[0].text.startswith("torchrun --nproc-per-node 2 -m gpnn train --config")
