"""Programs in any language as spouts and bolts, by Storm's multilang protocol."""
