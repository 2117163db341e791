"""Operations on a running topology, as functions and data.

`kstorm.cli`, `kstorm.client` and the web UI are thin layers on top of it.
"""
