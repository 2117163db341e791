"""Record the actions of operators."""
