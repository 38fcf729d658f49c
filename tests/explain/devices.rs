//! What explain says of claims that get no devices, and what would place their pods.

use super::command::{explain, stdout};

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/explain/devices.yaml");

/// Whether these lines follow one another in what is said of the pod.
fn says(pod: &str, lines: &[&str]) {
    let text = stdout(&explain(&["-f", CLUSTER, "--pod", pod]));
    assert!(text.contains(&lines.join("\n")), "{lines:#?} is missing in\n{text}");
}

#[test]
fn it_is_said_who_has_a_device_and_which_selector_fails() {
    says(
        "default/p",
        &[
            "  2  cannot allocate all claims",
            "  request gpus of claim default/large wants 1 device of class gpu:",
            r#"    - selectors[0] does not match 1 of 5 devices: device.capacity["gpu.example.com"].memory is 40Gi"#,
            r#"    - selectors[1] does not match 2 of 5 devices: device.attributes["gpu.example.com"].model is "H100" (1), "V100" (1)"#,
            "    - 1 of 5 devices is taken: device 0 of pool a by default/train",
            "    - 1 of 5 devices is tainted broken:NoSchedule",
        ],
    );
}

#[test]
fn it_is_said_where_the_devices_of_a_claim_are() {
    says("default/q", &["  claim default/taken has devices that cannot be used there: device 0 of pool a"]);
}

#[test]
fn it_is_said_that_only_together_requests_find_no_devices() {
    says("default/both", &["  each request finds devices by itself, but not all of them together"]);
}

#[test]
fn what_would_place_the_pod_is_said_of_its_claim_and_of_those_that_have_devices() {
    says(
        "default/p",
        &[
            "any of these would place it, the smallest change first:",
            "   1. tolerate the taint broken:NoSchedule in request gpus of claim default/large: it fits a",
            r#"   2. drop selectors[0] (device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0) in request gpus of claim default/large: it fits a"#,
            r#"   3. drop selectors[1] (device.attributes["gpu.example.com"].model == "A100") in request gpus of claim default/large: it fits b"#,
            "   4. end default/train: the devices of claim default/taken are free then: it fits a",
        ],
    );
    says("default/many", &["   1. ask for at most 1 instead of 3 in request gpus of claim default/many: it fits a"]);
    says(
        "default/odd",
        &[
            "   1. drop selectors[1] (device.driver == \"other\") in request one of claim default/odd: it fits b and 1 more",
        ],
    );
}
