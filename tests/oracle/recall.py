"""Recall at k with dictionaries, one vote at a time."""

from torch import Tensor
from torch_geometric.data import Data


def recall_at_k(data: Data, probabilities: Tensor, k: int) -> float:
    """Votes into a dictionary of pairs, sorted; each gold pair asks its similar items."""
    scores: dict[tuple[int, int], float] = {}
    for source, item in data.edge_index.T.tolist():
        if source < data.num_lists and data.test_mask[source]:
            category = int(probabilities[source].argmax())
            score = float(probabilities[source, category])
            scores[item, category] = max(score, scores.get((item, category), 0.0))
    best = sorted(scores, key=lambda pair: (-scores[pair], pair))[:k]
    found = 0
    for pair, category in enumerate(data.gold_class.tolist()):
        similar = data.similar_item[data.similar_ptr[pair] : data.similar_ptr[pair + 1]].tolist()
        found += any((item, category) in best for item in similar)
    return found / len(data.gold_class)
