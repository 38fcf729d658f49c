//! Counts and lists, as sentences have them.

/// `1 pod`, `2 pods`: a count with its noun.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The first `max` of `names`, and how many more there are.
pub fn some_of(names: &[String], max: usize) -> String {
    let shown = names[..names.len().min(max)].join(", ");
    if names.len() > max { format!("{shown} and {} more", names.len() - max) } else { shown }
}
