//! A cluster without IPv4: the API server and the operator's own pages are reached by IPv6 alone.

use berth_lab::{ControlPlane, NodeSpec, Options};
use serde_json::json;

use crate::cluster::{install_chart, namespace, serving};
use crate::objects::{PROFILES, pod, pod_path, profile, wait_bound, wait_reason};

#[test]
fn a_cluster_of_ipv6_alone_is_served() {
    let plane = ControlPlane::start(&Options { ipv6: true, ..Options::default() }).unwrap();
    assert!(plane.server.starts_with("https://[::1]:"), "{}", plane.server);
    install_chart(&plane, &[]);
    namespace(&plane, "six");
    plane.create_nodes(1, |_| NodeSpec::new("n", "zone-a", "8", "32Gi")).unwrap();
    let free = std::net::TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap();
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
