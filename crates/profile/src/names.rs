//! Kubernetes' rules for names, which regular expressions in a schema can only approximate.

/// Whether `text` is a DNS-1123 subdomain: labels of lower-case letters, digits and `-`, joined by dots, 253 bytes at most.
pub fn is_dns1123_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| is_dns1123_label(label, 253))
}

/// Whether `text` is a DNS-1123 label of at most `max` bytes.
fn is_dns1123_label(text: &str, max: usize) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !text.is_empty() && text.len() <= max && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether `text` is the name of a namespace.
pub(crate) fn is_namespace_name(text: &str) -> bool {
    is_dns1123_label(text, 63)
}

/// Whether `text` is a qualified name: `name` or `prefix/name`, as label keys and resources are.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns1123_subdomain(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

/// Whether `text` is a label's value: empty, or like the name part of a key.
pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

fn is_name_part(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let edge = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= 63 && bytes.iter().all(|c| inner(*c)) && edge(bytes.first()) && edge(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomains() {
        for good in ["a", "default-scheduler", "a.b-c.d0", &"a".repeat(253)] {
            assert!(is_dns1123_subdomain(good), "{good}");
        }
        for bad in ["", "A", "a..b", ".a", "a.", "-a", "a-", "a_b", "a b", "ä", &"a".repeat(254)] {
            assert!(!is_dns1123_subdomain(bad), "{bad}");
        }
    }

    #[test]
    fn qualified_names_and_label_values() {
        for good in ["pool", "example.com/pool", "a/B_c.d-e", &"x".repeat(63)] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "example..com/pool", "A.b/c", "-a", "a-", &"x".repeat(64)] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
        assert!(is_label_value("") && is_label_value("a_B.c") && !is_label_value("a/b") && !is_label_value("_"));
        assert!(is_namespace_name("kube-system") && !is_namespace_name("a.b") && !is_namespace_name(&"a".repeat(64)));
    }
}
