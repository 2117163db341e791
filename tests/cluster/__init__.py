"""A release on a real cluster, beside what others have made: Prometheus, KEDA, and who enforces NetworkPolicies.

    eval "$(../shared/cluster/up)"
    export KSTORM_IMAGE_LOADER=../shared/cluster/load-image
    ./run images --tag e2e-1
    ./run test cluster

It needs root, ipset, Go, which builds them once, and a cluster whose only node is this machine: the programs run as processes of
it, or in pods that mount them from it. `docs/kubernetes.md` says what was seen.
"""
