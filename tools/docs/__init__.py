"""The site of the documentation, and the reference pages that are generated from the code."""
