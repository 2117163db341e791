"""Word count, the main example.

`topology` counts the words. `tables` defines the Spark pipeline's tables of the counts.
"""
