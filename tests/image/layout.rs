//! The layout: what registries and container runtimes read.

use berth_lab::Upstream;
use serde_json::{Value, json};

use super::{Image, json_of, ran, repository};

#[test]
fn every_digest_is_right_and_a_registry_takes_the_image() {
    let Some(image) = Image::shared("every_digest_is_right_and_a_registry_takes_the_image") else { return };
    ran(Upstream::crane().unwrap(), &["check", image.oci().to_str().unwrap()]);
    let index = json_of(&image.oci().join("index.json"));
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let manifests = index["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 1);
    assert_eq!(manifests[0]["digest"], image.digest);
    assert_eq!(manifests[0]["platform"], json!({"os": "linux", "architecture": machine}));
    assert_eq!(manifests[0]["annotations"]["org.opencontainers.image.ref.name"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_image_runs_the_operator_as_the_user_that_the_chart_names() {
    let Some(image) = Image::shared("the_image_runs_the_operator_as_the_user_that_the_chart_names") else { return };
    let config = &image.config()["config"];
    assert_eq!((&config["Entrypoint"], &config["Cmd"]), (&json!(["/berth"]), &json!(["operator"])));
    let values = std::fs::read_to_string(repository().join("charts/berth/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let context = &values["podSecurityContext"];
    assert_eq!(config["User"], format!("{}:{}", context["runAsUser"], context["runAsGroup"]));
    assert_eq!(config["ExposedPorts"], json!({"8080/tcp": {}, "8081/tcp": {}}));
    assert_eq!(config["Env"], Value::Null);
    let labels = config["Labels"].as_object().unwrap();
    for (name, value) in labels {
        assert!(!value.as_str().unwrap().is_empty(), "{name} is empty");
    }
    let label = |name: &str| &labels[&format!("org.opencontainers.image.{name}")];
    assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(label("licenses"), "Apache-2.0");
    assert_eq!(label("created"), "2023-11-14T22:13:20Z");
}

/// And the Dockerfile says the same of the image that a daemon makes.
#[test]
fn the_dockerfile_ends_as_the_image_does() {
    let Some(image) = Image::shared("the_dockerfile_ends_as_the_image_does") else { return };
    let file = std::fs::read_to_string(repository().join("Dockerfile")).unwrap();
    let (_, last) = file.split_once("\nFROM scratch\n").unwrap();
    let said: Vec<&str> = last.lines().filter(|line| !line.starts_with('#')).collect();
    let config = &image.config()["config"];
    let ports: Vec<&str> = config["ExposedPorts"].as_object().unwrap().keys().map(|port| &port[..4]).collect();
    let wanted = [
        "COPY --from=build /image /".to_owned(),
        format!("USER {}", config["User"].as_str().unwrap()),
        format!("EXPOSE {}", ports.join(" ")),
        format!("ENTRYPOINT {}", config["Entrypoint"]),
        format!("CMD {}", config["Cmd"]),
    ];
    assert_eq!(said, wanted);
}

#[test]
fn the_same_binary_and_packages_give_the_same_digest() {
    let Some(image) = Image::shared("the_same_binary_and_packages_give_the_same_digest") else { return };
    assert_eq!(Image::make("image-again").digest, image.digest);
}
