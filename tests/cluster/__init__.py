"""A release on a real cluster, together with Prometheus, KEDA and a firewall that enforces
NetworkPolicies.

    eval "$(../shared/cluster/up)"
    export KSTORM_IMAGE_LOADER=../shared/cluster/load-image
    ./run images --tag e2e-1
    ./run test cluster

It needs root, ipset, and Go, which builds the programs once. The only node of the cluster must be
this machine: the programs are processes of it, or run in pods that mount them. `docs/development/tried.md`
describes the results.
"""
