module berth.dev/tests/upstream/prometheus-operator

go 1.26.0

// For its definitions alone, which tests/e2e/chart_values.rs installs: no code of it is built.
require github.com/prometheus-operator/prometheus-operator v0.85.0
