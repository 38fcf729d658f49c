//! IPv6: a cluster without IPv4, in which the API server and the operator's own pages are reached by IPv6 alone, and listeners of both
//! families.

use std::net::TcpListener;

use berth_lab::{ControlPlane, NodeSpec, Options};
use serde_json::json;

use crate::cluster::{install_chart, namespace, serving, shared, start};
use crate::objects::{PROFILES, pod, pod_path, profile, wait_bound, wait_reason};

#[test]
fn a_cluster_of_ipv6_alone_is_served() {
    let plane = ControlPlane::start(&Options { ipv6: true, ..Options::default() }).unwrap();
    assert!(plane.server.starts_with("https://[::1]:"), "{}", plane.server);
    install_chart(&plane, &[]);
    namespace(&plane, "six");
    plane.create_nodes(1, |_| NodeSpec::new("n", "zone-a", "8", "32Gi")).unwrap();
    let free = TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap();
    let pages = ["--probe-address=[::1]:0", "--debug-address=[::1]:0", &format!("--http-address={free}")];
    let operator = serving(&plane, "berth-six", &pages);
    assert!(operator.http.starts_with("http://[::1]:"), "{}", operator.http);
    plane.api.post(PROFILES, &profile("six", &json!({}))).unwrap();
    wait_reason(&plane, "six", "Ready", "Serving");
    plane.api.post(&pod_path("six", ""), &pod("six", "p", "six", "100m")).unwrap();
    assert_eq!(wait_bound(&plane, "six", "p"), "n");
    let (status, metrics) = operator.page("/metrics").unwrap();
    assert!(status == 200 && metrics.contains("scheduler_schedule_attempts_total"), "{status} {metrics}");
}

/// On `[::]`, as the chart has it. The replica stands by, and serves its pages all the same.
#[test]
fn a_listener_of_both_families_answers_clients_of_ipv4_and_of_ipv6() {
    let plane = &shared().plane;
    // Held until both are known, so that they differ.
    let held = [(); 2].map(|()| TcpListener::bind("[::]:0").unwrap());
    let [pages, probes] = held.map(|listener| listener.local_addr().unwrap().port());
    let (of_pages, of_probes) = (format!("--http-address=[::]:{pages}"), format!("--probe-address=[::]:{probes}"));
    let mut operator = start(plane, "berth-both", &[&of_pages, &of_probes]);
    for host in ["127.0.0.1", "[::1]"] {
        operator.http = format!("http://{host}:{pages}");
        plane.wait_until_ready(&mut operator).unwrap();
        let (status, metrics) = operator.page("/metrics").unwrap();
        assert!(status == 200 && metrics.contains("berth_build_info"), "{host}: {status} {metrics}");
        operator.http = format!("http://{host}:{probes}");
        for probe in ["/livez", "/readyz"] {
            assert_eq!(operator.page(probe).unwrap(), (200, "ok\n".to_owned()), "{host} {probe}");
        }
    }
}
