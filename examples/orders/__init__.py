"""Orders: JSON with decimals and nulls, a join of two streams, and a total per customer."""
