"""Peers: what others train on a graph, each chosen on the validation nodes among as many trials."""
