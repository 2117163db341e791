"""A release on a real cluster, together with Prometheus, KEDA, a firewall that enforces
NetworkPolicies, and a Storm that it replaces.

    eval "$(../shared/cluster/up)"
    export KSTORM_IMAGE_LOADER=../shared/cluster/load-image
    ./run images --tag e2e-1
    ./run test cluster

It needs root, ipset, and Go, which builds the programs once. The move from Storm is skipped without
a JDK, and without `PYSTORM_PYTHON`, the path of a Python that has pystorm. The only node of the cluster must be
this machine: the programs are processes of it, or run in pods that mount them. `docs/development/tried.md`
describes the results.
"""
