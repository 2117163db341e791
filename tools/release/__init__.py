"""`./run release --dry-run`: makes a release, and publishes it to a registry on this machine."""
