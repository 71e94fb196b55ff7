"""The compiled steps of a multilevel partition: cluster, contract, divide, refine, rebalance."""
