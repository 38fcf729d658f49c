//! Where the fields of a spec come from.

/// Where the fields of a spec were written in the document, and what else is to be said of them.
#[derive(Debug, Default)]
pub(super) struct Origins {
    sources: Vec<(String, String)>,
    comments: Vec<(String, String)>,
}

impl Origins {
    /// Notes that what `spec` names came from `source`; the first entry that fits a field counts.
    pub(super) fn add(&mut self, spec: impl Into<String>, source: impl Into<String>) {
        let (spec, source) = (spec.into(), source.into());
        if !source.is_empty() {
            self.comments.push((spec.clone(), format!("from {source}")));
        }
        self.sources.push((spec, source));
    }

    /// Notes where what `spec` names came from for errors alone: a reader of the profile sees it without being told.
    pub(super) fn add_silently(&mut self, spec: impl Into<String>, source: impl Into<String>) {
        self.sources.push((spec.into(), source.into()));
    }

    /// Says something of the field `spec`.
    pub(super) fn say(&mut self, spec: impl Into<String>, text: impl Into<String>) {
        self.comments.push((spec.into(), text.into()));
    }

    /// The path in the document of what stands at `field` of the spec.
    pub(super) fn find(&self, field: &str) -> String {
        let below = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let found = self.sources.iter().find_map(|(spec, source)| {
            field.strip_prefix(spec.as_str()).filter(|rest| below(rest)).map(|rest| format!("{source}{rest}"))
        });
        found.unwrap_or_else(|| field.to_owned())
    }

    /// What is to be said of the fields, in the order noted.
    pub(super) fn comments(self) -> Vec<(String, String)> {
        self.comments
    }
}
