"""The digest of a dataset changes with whatever a training would see, and with nothing else."""

import pytest
import torch
from torch_geometric.data import Data

from gpnn.data import digest as module
from gpnn.data.digest import digest_data
from gpnn.data.sparse import csr_tensor


def example() -> Data:
    masks = {name: torch.arange(4) == place for place, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    return Data(x=torch.arange(8.0).view(4, 2), edge_index=edge_index, y=torch.tensor([0, 1, 0, 1]), **masks)


def test_equal_data_have_equal_digests() -> None:
    data = example()
    data.remarks = ["anything"]
    data.edge_index = data.edge_index.t().contiguous().t()  # other strides
    assert digest_data(data) == digest_data(example())


@pytest.mark.parametrize("name", ["x", "edge_index", "y", "train_mask"])
def test_one_value_makes_another(name: str) -> None:
    data = example()
    data[name] = data[name].clone()
    data[name].view(-1)[3] = not data[name].view(-1)[3]
    assert digest_data(data) != digest_data(example())


def test_sparse_features_count_entry_by_entry() -> None:
    one, other = (example() for _ in range(2))
    ptr, columns = torch.tensor([0, 1, 2, 2, 2]).numpy(), torch.tensor([0, 1]).numpy()
    one.x = csr_tensor(ptr, columns, torch.tensor([1.0, 2.0]).numpy(), (4, 2))
    other.x = csr_tensor(ptr, columns[::-1].copy(), torch.tensor([1.0, 2.0]).numpy(), (4, 2))
    assert len({digest_data(one), digest_data(other), digest_data(example())}) == 3


def test_large_arrays_count_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", 16)
    monkeypatch.setattr(module, "NUM_BLOCKS", 3)
    monkeypatch.setattr(module, "BLOCK", 4)
    seen = []
    for place in range(8):
        data = example()
        data.x.view(-1)[place] = -1
        seen.append(digest_data(data) != digest_data(example()))
    assert seen == [place in (0, 3, 7) for place in range(8)]  # bytes 0–3, 14–17, 28–31
