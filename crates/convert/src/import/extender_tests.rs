use super::testing::read_text;
use super::{Import, ImportError, Loss};
use berth_api::{BundleKind, FitCheck, TlsMode};
use serde_json::json;

fn read(extender: &str) -> Result<Import, ImportError> {
    read_text(&format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: [{extender}]"
    ))
}

fn import(extender: &str) -> Import {
    read(extender).unwrap_or_else(|error| panic!("{extender}: {error}"))
}

/// What matters.
fn lines(import: &Import) -> Vec<String> {
    import.losses.iter().filter(|loss| loss.matters()).map(Loss::to_string).collect()
}

/// The fields of the losses, without the note that every extender has.
fn fields(import: &Import) -> Vec<&str> {
    import.losses.iter().map(|l| l.field.as_str()).filter(|field| !field.ends_with("urlPrefix")).collect()
}

#[test]
fn every_profile_asks_the_extenders_of_the_process() {
    let body = "profiles: [{schedulerName: a}, {schedulerName: b}]\nextenders:\n\
                - {urlPrefix: 'https://x.example.com', filterVerb: f, httpTimeout: 2s}\n\
                - {urlPrefix: 'https://x.example.com/two', prioritizeVerb: p, weight: 2, httpTimeout: 100s}";
    let text = format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{body}");
    let import = read_text(&text).unwrap();
    assert_eq!(import.profiles[0].spec.extenders, import.profiles[1].spec.extenders);
    let [one, two] = &import.profiles[0].spec.extenders[..] else { panic!("{import:?}") };
    assert_eq!((one.name.as_str(), two.name.as_str()), ("x-example-com", "x-example-com-2"));
    assert_eq!(one.verbs.filter.as_ref().unwrap().timeout.get().as_secs(), 2);
    assert_eq!(two.verbs.prioritize.as_ref().unwrap().timeout.get().as_secs(), 60);
    assert_eq!(lines(&import), ["extenders[1].httpTimeout: 1m40s becomes 1m: a call may take 50ms to 1m"]);
}

#[test]
fn certificates_in_the_document_become_secrets() {
    let import = import(
        "{urlPrefix: 'https://gpu.example.com', filterVerb: f, enableHTTPS: true, \
         tlsConfig: {serverName: gpu, caData: Q0E=, certData: Q0VSVA==, keyData: S0VZ}}",
    );
    let tls = import.profiles[0].spec.extenders[0].tls.as_ref().unwrap();
    assert_eq!((tls.mode, tls.server_name.as_deref()), (TlsMode::Verify, Some("gpu")));
    let ca = tls.ca_bundle_ref.as_ref().unwrap();
    assert_eq!((ca.kind, ca.name.as_str(), ca.key.as_str()), (BundleKind::Secret, "gpu-example-com-ca", "ca.crt"));
    assert_eq!(tls.client_cert_ref.as_ref().unwrap().name, "gpu-example-com-client");
    assert_eq!(
        import.manifests,
        [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gpu-example-com-ca"}, "type": "Opaque",
                   "data": {"ca.crt": "Q0E="}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gpu-example-com-client"},
                   "type": "kubernetes.io/tls", "data": {"tls.crt": "Q0VSVA==", "tls.key": "S0VZ"}}),
        ]
    );
    assert_eq!(fields(&import), ["extenders[0].tlsConfig.caData", "extenders[0].tlsConfig.certData"]);
    for manifest in import.manifests_for(&["a", "b"]) {
        let annotations = &manifest["metadata"]["annotations"];
        assert_eq!(*annotations, json!({"scheduling.berth.dev/extender-profiles": "a,b"}));
    }
}

#[test]
fn certificates_in_files_are_reported_with_the_command_to_import_them() {
    let import = import(
        "{urlPrefix: 'https://gpu.example.com', filterVerb: f, \
         tlsConfig: {caFile: /etc/ca.pem, certFile: /etc/c.pem, keyFile: /etc/k.pem}}",
    );
    let lines = lines(&import);
    assert!(
        lines[0].ends_with("kubectl create configmap gpu-example-com-ca --from-file=ca.crt=/etc/ca.pem"),
        "{lines:?}"
    );
    let tls = "kubectl create secret tls gpu-example-com-client --cert=/etc/c.pem --key=/etc/k.pem";
    assert!(lines[1].ends_with(tls), "{lines:?}");
    assert_eq!(import.manifests, [] as [serde_json::Value; 0]);
}

#[test]
fn https_without_a_ca_is_not_checked() {
    for (text, mode) in [
        ("{urlPrefix: 'https://a', filterVerb: f, enableHTTPS: true}", Some(TlsMode::InsecureSkipVerify)),
        ("{urlPrefix: 'https://a', filterVerb: f, tlsConfig: {insecure: true}}", Some(TlsMode::InsecureSkipVerify)),
        ("{urlPrefix: 'https://a', filterVerb: f}", None),
        ("{urlPrefix: 'http://a', filterVerb: f, enableHTTPS: true, tlsConfig: {insecure: true}}", None),
    ] {
        let import = import(text);
        assert_eq!(import.profiles[0].spec.extenders[0].tls.as_ref().map(|tls| tls.mode), mode, "{text}");
        assert!(import.losses.iter().all(|loss| !loss.matters()), "{text}: {:?}", import.losses);
    }
}

/// As upstream, which replaces what the plugin's arguments list.
#[test]
fn resources_left_to_extenders_replace_ignored_ones() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
        extenders: [{urlPrefix: 'https://a', filterVerb: f, managedResources: [{name: a.com/b, ignoredByScheduler: true}]}]\n\
        profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [c.com/d]}}]}]";
    let import = read_text(text).unwrap();
    assert_eq!(import.profiles[0].compiled.fit.ignored_resources, ["a.com/b".into()]);
    assert_eq!(fields(&import), ["profiles[0].pluginConfig[0].args.ignoredResources"]);
}

#[test]
fn an_extender_without_verbs_still_takes_resources_away() {
    let import = import("{urlPrefix: 'https://a', managedResources: [{name: a.com/b, ignoredByScheduler: true}]}");
    let profile = &import.profiles[0];
    assert_eq!((profile.spec.extenders.len(), profile.compiled.fit.ignored_resources.len()), (0, 1));
    let kept = import_of_one_that_keeps();
    assert_eq!(kept.managed_resources[0].fit_check, FitCheck::Keep);
}

fn import_of_one_that_keeps() -> berth_api::Extender {
    import("{urlPrefix: 'https://a', bindVerb: b, managedResources: [{name: a.com/b}]}").profiles[0].spec.extenders[0]
        .clone()
}

#[test]
fn a_resource_that_nobody_checks_is_acknowledged() {
    let import =
        import("{urlPrefix: 'https://a', bindVerb: b, managedResources: [{name: a.com/b, ignoredByScheduler: true}]}");
    assert_eq!(import.profiles[0].spec.allow_unsafe, berth_api::AllowUnsafe::Acknowledged);
    assert_eq!(fields(&import), ["extenders[0].managedResources"]);
}

#[test]
fn bad_extenders_are_refused_with_the_field_named() {
    let table = [
        ("{urlPrefix: 'https://a', filterVerb: f, httpTimeout: 5}", "extenders[0].httpTimeout", "a text"),
        ("{urlPrefix: 'https://a', filterVerb: f, enableHttps: true}", "extenders[0].enableHttps", "unknown field"),
        (
            "{urlPrefix: 'https://a', filterVerb: f, tlsConfig: {caData: '?'}}",
            "extenders[0].tlsConfig.caData",
            "base64",
        ),
        (
            "{urlPrefix: 'https://a', filterVerb: f, tlsConfig: {caFile: a, insecure: true}}",
            "extenders[0].tlsConfig.insecure",
            "refuses both",
        ),
        (
            "{urlPrefix: 'https://a', filterVerb: f, tlsConfig: {certFile: a}}",
            "extenders[0].tlsConfig.certFile",
            "its key",
        ),
        (
            "{urlPrefix: 'https://a', filterVerb: f, managedResources: [{name: a.com/b}, {name: a.com/b}]}",
            "extenders[0].managedResources[1].name",
            "managed already",
        ),
        ("{filterVerb: f}", "extenders[0].urlPrefix", "missing"),
    ];
    for (text, field, word) in table {
        let error = read(text).expect_err(text);
        assert!(error.field == field && error.to_string().contains(word), "{text}: {error}");
    }
}
