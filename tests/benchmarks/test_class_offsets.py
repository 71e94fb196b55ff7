"""Offsets of classes, compared on kept predictions."""

import torch

from benchmarks.class_offsets import RACES, compare, find_outputs, table


def test_offsets_mend_a_class_that_is_predicted_too_seldom(tmp_path):
    random = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(2000, 3, generator=random)
    target = torch.multinomial(logits.softmax(1), 1, generator=random)[:, 0]
    found = (logits + torch.tensor([1.5, 0.0, 0.0])).softmax(1)
    kept = {"outputs": {"trained again": (found[:1000], found[1000:])}, "targets": (target[:1000], target[1000:])}
    torch.save(kept, tmp_path / "cora-3.pt")
    torch.save({}, tmp_path / "cora-3-again.pt")
    ((graph, what, split, *given),) = find_outputs(tmp_path)
    assert (graph, what, split) == ("cora", RACES, 3)
    line = compare(*given)
    assert line["kept"]
    assert line["offsets"][0] > line["temperature"][0]
    assert line["offsets"][1] < line["temperature"][1]
    assert f"| cora | {RACES} | 2 |" in table([{"graph": graph, "what": what, **line}] * 2)
