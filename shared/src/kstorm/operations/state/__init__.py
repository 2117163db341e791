"""Query the state of bolts."""
