//! A table of URLs that somebody might try, and what stops each.

use super::*;
use std::net::IpAddr;

fn policy() -> AddressPolicy {
    let hosts = ["ext.example.com", "*.corp.example", "rebind.example.com", "10.0.0.0/8", "192.168.7.7", "fd00::/8"];
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    AddressPolicy::new(&hosts, &["plain.example.com".to_owned()])
        .unwrap()
        .with_api_servers(["10.96.0.1".parse().unwrap(), "172.20.5.5".parse().unwrap()].into_iter().collect())
}

/// What stops a URL before anything is connected to; `None`: nothing.
fn stopped(url: &str) -> Option<String> {
    match Url::parse(url) {
        Err(error) => Some(error.to_string()),
        Ok(url) => policy().check_url(&url).err().map(|refusal| refusal.to_string()),
    }
}

const NOT_A_HOST: &str = "the host of a URL is";
const NOT_LISTED: &str = "is not on the list";

/// Not URLs that one may give.
const NOT_URLS: &[(&str, &str)] = &[
    ("", "begins with https://"),
    ("ext.example.com", "begins with https://"),
    ("//ext.example.com/", "begins with https://"),
    ("file:///etc/passwd", "begins with https://"),
    ("ftp://ext.example.com/", "begins with https://"),
    ("gopher://ext.example.com:70/_x", "begins with https://"),
    ("javascript://ext.example.com/%0aalert(1)", "begins with https://"),
    ("unix:///var/run/docker.sock", "begins with https://"),
    ("HTTPS://ext.example.com/", "begins with https://"),
    ("https:ext.example.com", "begins with https://"),
    ("https://user@ext.example.com/", "no user"),
    ("https://user:pass@ext.example.com/", "no user"),
    ("https://ext.example.com@10.96.0.1/", "no user"),
    ("https://ext.example.com:443@169.254.169.254/", "no user"),
    ("https://ext.example.com/?a=b", "no query"),
    ("https://ext.example.com/#frag", "no query"),
    ("https://169.254.169.254#@ext.example.com/", "no query"),
    ("https://ext.example.com\\@10.96.0.1/", "backslashes"),
    ("https://ext.example.com /", "no spaces"),
    ("https://ext.example.com\r\nHost: evil/", "no spaces"),
    ("https://ext.example.com/\u{0}", "no spaces"),
    ("https://ext.example.com/\t", "no spaces"),
    ("https://ｅｘｔ.example.com/", "beyond ASCII"),
    ("https://①②⑦.⓪.⓪.①/", "beyond ASCII"),
    ("https://127。0。0。1/", "beyond ASCII"),
    ("https://ехт.example.com/", "beyond ASCII"),
    ("https://", NOT_A_HOST),
    ("https:///path", NOT_A_HOST),
    ("https://:443/", NOT_A_HOST),
    ("https://./", NOT_A_HOST),
    ("https://ext..example.com/", NOT_A_HOST),
    ("https://.example.com/", NOT_A_HOST),
    ("https://-ext.example.com/", NOT_A_HOST),
    ("https://ext%2eexample.com/", NOT_A_HOST),
    ("https://%31%32%37.0.0.1/", NOT_A_HOST),
    ("https://*.corp.example/", NOT_A_HOST),
    ("https://ext.example.com:0/", "the port of a URL"),
    ("https://ext.example.com:65536/", "the port of a URL"),
    ("https://ext.example.com:/", "the port of a URL"),
    ("https://ext.example.com:443:80/", "the port of a URL"),
    ("https://ext.example.com:+443/", "the port of a URL"),
    ("https://ext.example.com:0443/", "the port of a URL"),
];

/// Addresses in disguise.
const DISGUISED: &[(&str, &str)] = &[
    ("https://2130706433/", NOT_A_HOST),
    ("https://017700000001/", NOT_A_HOST),
    ("https://0x7f000001/", NOT_A_HOST),
    ("https://0x7f.1/", NOT_A_HOST),
    ("https://0177.0.0.1/", NOT_A_HOST),
    ("https://127.1/", NOT_A_HOST),
    ("https://127.0.1/", NOT_A_HOST),
    ("https://127.0.0.01/", NOT_A_HOST),
    ("https://127.0.0.0x1/", NOT_A_HOST),
    ("https://127.0.0.1./", NOT_A_HOST),
    ("https://256.0.0.1/", NOT_A_HOST),
    ("https://1.2.3.4.5/", NOT_A_HOST),
    ("https://[::1%25lo]/", NOT_A_HOST),
    ("https://[::1/", NOT_A_HOST),
    ("https://[::1]x/", NOT_A_HOST),
    ("https://::1/", "the port of a URL"),
    ("https://[127.0.0.1]/", NOT_A_HOST),
    ("https://[fe80::1%eth0]/", NOT_A_HOST),
];

/// Addresses that are nobody's business.
const NOBODYS: &[(&str, &str)] = &[
    (
        "https://127.0.0.1/",
        "127.0.0.1 is a loopback address, which is not allowed: start the operator with --extender-allow-host 127.0.0.1",
    ),
    ("https://127.8.8.8:6443/", "loopback"),
    ("https://[::1]/", "loopback"),
    ("https://[0:0:0:0:0:0:0:1]/", "loopback"),
    ("https://[::ffff:127.0.0.1]/", "--extender-allow-host 127.0.0.1"),
    ("https://[::127.0.0.1]/", "loopback"),
    ("https://[64:ff9b::7f00:1]/", "loopback"),
    ("https://[64:ff9b:1::7f00:1]/", "loopback"),
    ("https://[2002:7f00:1::]/", "loopback"),
    ("https://169.254.169.254/latest/meta-data", "link-local"),
    ("https://[::ffff:a9fe:a9fe]/", "link-local"),
    ("https://[64:ff9b::a9fe:a9fe]/", "link-local"),
    ("https://[fe80::1]/", "link-local"),
    ("https://[fec0::1]/", "link-local"),
    ("https://[fd00:ec2::254]/", "metadata"),
    ("https://[fd00:ec2::23]/", "metadata"),
    ("https://[fd00:ec2:1::1]/", "metadata"),
    ("https://[fd20:ce::254]/", "metadata"),
    // 127.0.0.1, 169.254.169.254 and 169.254.169.1 below 64:ff9b:1::/48, as networks with prefixes of 48, 56 and 64 bits write them.
    ("https://[64:ff9b:1:7f00:0:100::]/", "loopback"),
    ("https://[64:ff9b:1:7f:0:1::]/", "loopback"),
    ("https://[64:ff9b:1:0:7f:0:100:0]/", "loopback"),
    ("https://[64:ff9b:1:a9fe:a9:fe00::]/", "link-local"),
    ("https://[64:ff9b:1:a9:fe:a9fe::]/", "link-local"),
    ("https://[64:ff9b:1:2:a9:fea9:100:0]/", "link-local"),
    ("https://[64:ff9b:1:ac14:5:500::]/", "the API server"),
    ("https://[fd12::5efe:7f00:1]/", "loopback"),
    ("https://[fd12::200:5efe:a9fe:a9fe]/", "link-local"),
    ("https://[fd12::5efe:172.20.5.5]/", "the API server"),
    ("https://[fe80::5efe:8.8.8.8]/", "link-local"),
    ("https://100.100.100.200/", "metadata"),
    ("https://168.63.129.16/", "metadata"),
    ("https://0.0.0.0/", "unspecified"),
    ("https://0.1.2.3/", "unspecified"),
    ("https://[::]/", "unspecified"),
    ("https://[::ffff:0.0.0.0]/", "unspecified"),
    ("https://224.0.0.1/", "multicast"),
    ("https://[ff02::1]/", "multicast"),
    ("https://255.255.255.255/", "reserved"),
    ("https://240.0.0.1/", "reserved"),
    ("https://[2001::1]/", "reserved"),
    ("https://172.20.5.5:6443/", "the API server"),
    ("https://[::ffff:172.20.5.5]/", "the API server"),
];

/// Others that nobody listed.
const NOT_LISTED_URLS: &[(&str, &str)] = &[
    ("https://evil.example.com/", NOT_LISTED),
    ("https://example.com/", NOT_LISTED),
    ("https://ext.example.com.evil.io/", NOT_LISTED),
    ("https://xext.example.com/", NOT_LISTED),
    ("https://corp.example/", NOT_LISTED),
    ("https://evilcorp.example/", NOT_LISTED),
    ("https://localhost/", NOT_LISTED),
    ("https://metadata.google.internal/", NOT_LISTED),
    ("https://kubernetes.default.svc/", NOT_LISTED),
    ("https://8.8.8.8/", NOT_LISTED),
    ("https://192.168.7.8/", NOT_LISTED),
    ("https://[2606:4700::1111]/", NOT_LISTED),
    ("https://xn--xt-uja.example.com/", NOT_LISTED),
];

/// Plain text.
const PLAIN: &[(&str, &str)] = &[
    (
        "http://ext.example.com/",
        "plain http to ext.example.com is not allowed: use https, or start the operator with --extender-allow-http ext.example.com",
    ),
    ("http://localhost:8888/", "--extender-allow-http localhost"),
    ("http://127.0.0.1:8888/", "--extender-allow-http 127.0.0.1"),
    ("http://10.1.2.3/", "--extender-allow-http 10.1.2.3"),
];

#[test]
fn hostile_urls_are_stopped_each_for_its_reason() {
    let table: Vec<_> = [NOT_URLS, DISGUISED, NOBODYS, NOT_LISTED_URLS, PLAIN].concat();
    assert!(table.len() >= 60);
    for (url, why) in table {
        let message = stopped(url).unwrap_or_else(|| panic!("{url} is not stopped"));
        assert!(message.contains(why), "{url}: {message}");
    }
    let long = format!("https://ext.example.com/{}", "a".repeat(3_000));
    assert!(stopped(&long).unwrap().contains("at most"));
    let label = format!("https://{}.corp.example/", "a".repeat(64));
    assert!(stopped(&label).unwrap().contains(NOT_A_HOST));
}

#[test]
fn listed_urls_pass() {
    for (url, host, port, path) in [
        ("https://ext.example.com", "ext.example.com", 443, ""),
        ("https://EXT.example.com./scheduler/", "ext.example.com", 443, "/scheduler"),
        ("https://a.b.corp.example:8443/x//", "a.b.corp.example", 8443, "/x"),
        ("https://10.1.2.3:1/", "10.1.2.3", 1, ""),
        ("https://192.168.7.7", "192.168.7.7", 443, ""),
        ("https://[fd12::5]:8443/v1", "fd12::5", 8443, "/v1"),
        ("https://[::ffff:10.1.2.3]/", "::ffff:10.1.2.3", 443, ""),
        ("http://plain.example.com:8888/scheduler", "plain.example.com", 8888, "/scheduler"),
        ("https://plain.example.com", "plain.example.com", 443, ""),
    ] {
        assert_eq!(stopped(url), None, "{url}");
        let read = Url::parse(url).unwrap();
        assert_eq!((read.host.to_string().as_str(), read.port, read.path.as_str()), (host, port, path), "{url}");
    }
}

#[test]
fn a_listed_name_that_resolves_to_a_special_address_is_stopped() {
    let policy = policy();
    let host = Host::Name("rebind.example.com".to_owned());
    for (address, why) in [
        ("127.0.0.1", "host rebind.example.com leads to 127.0.0.1, a loopback address"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("fd00:ec2::254", "metadata"),
        ("10.96.0.1", "the API server"),
        ("172.20.5.5", "the API server"),
        ("::ffff:172.20.5.5", "the API server"),
        ("0.0.0.0", "unspecified"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
    ] {
        let address: IpAddr = address.parse().unwrap();
        let refusal = policy.check_address(&host, address).unwrap_err().to_string();
        assert!(refusal.contains(why), "{refusal}");
    }
    for address in ["10.1.2.3", "172.16.0.9", "192.168.1.1", "100.64.0.1", "8.8.8.8", "fd12::1", "2606:4700::1111"] {
        assert_eq!(policy.check_address(&host, address.parse().unwrap()), Ok(()), "{address}");
    }
}

/// A control plane may be replaced while the process runs.
#[test]
fn nothing_is_connected_to_before_the_api_servers_are_known_nor_to_a_new_one() {
    let servers = ApiServers::default();
    let policy = AddressPolicy::new(&["127.0.0.1".to_owned()], &[]).unwrap().with_api_servers(servers.clone());
    let host = Host::Name("ext.gpu.svc".to_owned());
    let check = |address: &str| policy.check_address(&host, address.parse().unwrap()).map_err(|e| e.to_string());
    assert!(check("10.0.0.1").unwrap_err().contains("the API server's own addresses"));
    assert_eq!(check("127.0.0.1"), Ok(()), "a flag spells it out");
    servers.set(["10.0.0.9".parse().unwrap()]);
    assert_eq!(check("10.0.0.1"), Ok(()));
    servers.set(["10.0.0.1".parse().unwrap()]);
    assert!(check("10.0.0.1").unwrap_err().contains("the API server"));
    assert_eq!(check("10.0.0.9"), Ok(()));
}

#[test]
fn localhost_by_name_takes_one_flag() {
    let refused = AddressPolicy::default();
    let url = Url::parse("http://localhost:8888/scheduler").unwrap();
    let message = refused.check_url(&url).unwrap_err().to_string();
    assert!(message.contains("--extender-allow-http localhost"), "{message}");
    let allowed = AddressPolicy::new(&[], &["localhost".to_owned()]).unwrap();
    assert_eq!(allowed.check_url(&url), Ok(()));
    assert_eq!(allowed.check_address(&url.host, "127.0.0.1".parse().unwrap()), Ok(()));
    assert_eq!(allowed.check_address(&url.host, "::1".parse().unwrap()), Ok(()));
    assert!(allowed.check_address(&url.host, "169.254.169.254".parse().unwrap()).is_err());
    let other = Host::Name("ext.example.com".to_owned());
    assert!(allowed.check_address(&other, "127.0.0.1".parse().unwrap()).is_err());
}

#[test]
fn a_flag_that_names_no_host_is_refused() {
    for value in [
        "",
        "*",
        "*.",
        "a b",
        "10.0.0.0/33",
        "10.0.0.0/x",
        "10.0.0.0/",
        "010.0.0.0/8",
        "host/8",
        "https://a",
        "0x7f.1",
        "fd00::/129",
    ] {
        let error = AddressPolicy::new(&[value.to_owned()], &[]).unwrap_err().to_string();
        assert!(error.contains(ALLOW_HOST) && error.contains("10.0.0.0/8"), "{error}");
    }
}

#[test]
fn a_wide_range_allows_no_special_address() {
    let rules = |rules: &[&str]| AddressPolicy::new(&rules.iter().map(ToString::to_string).collect::<Vec<_>>(), &[]);
    let host = Host::Name("ext.example.com".to_owned());
    let all = rules(&["0.0.0.0/0", "::/0"]).unwrap();
    for address in ["127.0.0.1", "169.254.169.254", "::1", "fe80::1", "168.63.129.16"] {
        assert!(all.check_address(&host, address.parse().unwrap()).is_err(), "{address}");
    }
    let meant = rules(&["127.0.0.0/8", "169.254.169.254", "::1", "fe80::/10", "168.63.129.16"]).unwrap();
    for address in ["127.0.0.1", "127.9.9.9", "169.254.169.254", "::1", "fe80::1", "168.63.129.16"] {
        assert_eq!(meant.check_address(&host, address.parse().unwrap()), Ok(()), "{address}");
    }
    assert!(meant.check_address(&host, "169.254.169.253".parse().unwrap()).is_err());
}
