//! A real control plane on loopback: etcd, kube-apiserver and friends, started and ended as one value.
