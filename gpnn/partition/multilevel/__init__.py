"""The compiled steps of a multilevel partition: cluster, contract, divide, then sweep, climb and balance."""
