"""Orders: JSON with decimals and nulls, a join of two streams, a total per customer."""
