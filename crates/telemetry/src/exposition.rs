//! The text of a scrape, made from the source at that moment.

use super::catalog::{Kind, Metric};
use super::histogram::HistogramSnapshot;
use super::plain::plain;
use bytes::Bytes;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long one text is the answer to all who ask: many clients must cost no more than one.
const FRESH: Duration = Duration::from_secs(1);

type LabelPairs = Vec<(&'static str, String)>;

/// In which form metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format 0.0.4, which every scraper reads.
    Plain,
    OpenMetrics,
}

enum Value {
    Counter(u64),
    /// Of something that is no whole number.
    Amount(f64),
    Gauge(f64),
    Histogram(HistogramSnapshot),
}

/// The samples of one scrape.
#[derive(Default)]
pub struct Samples(BTreeMap<Metric, Vec<(LabelPairs, Value)>>);

impl Samples {
    pub fn counter(&mut self, metric: Metric, labels: &[(&'static str, &str)], value: u64) {
        self.add(metric, labels, Value::Counter(value));
    }

    /// As [`Self::counter`], for seconds.
    pub fn amount(&mut self, metric: Metric, labels: &[(&'static str, &str)], value: f64) {
        self.add(metric, labels, Value::Amount(value));
    }

    pub fn gauge(&mut self, metric: Metric, labels: &[(&'static str, &str)], value: f64) {
        self.add(metric, labels, Value::Gauge(value));
    }

    pub fn histogram(&mut self, metric: Metric, labels: &[(&'static str, &str)], value: HistogramSnapshot) {
        self.add(metric, labels, Value::Histogram(value));
    }

    fn add(&mut self, metric: Metric, labels: &[(&'static str, &str)], value: Value) {
        let labels = labels.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        self.0.entry(metric).or_default().push((labels, value));
    }
}

/// A text, and when it was made.
type Made = (Instant, Bytes);

/// Writes the metrics of its source as text. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Exposition {
    registry: Arc<Registry>,
    /// What was made last of each [`Format`].
    last: [Arc<Mutex<Option<Made>>>; 2],
}

impl Exposition {
    /// Asks `source` for the samples at each scrape.
    pub fn new(source: impl Fn(&mut Samples) + Send + Sync + 'static) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Sourced(source)));
        Self { registry: Arc::new(registry), last: <[_; 2]>::default() }
    }

    /// As OpenMetrics.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// The text of at most a second ago: the same bytes for all who ask for this form meanwhile.
    ///
    /// Made on a thread for blocking work, one at a time: the source may wait for locks. Whoever stops waiting does not
    /// stop that thread, and the next one to ask waits for it and not for a second one.
    pub(crate) async fn shared(&self, format: Format) -> Result<Bytes, fmt::Error> {
        let mut last = self.last[format as usize].clone().lock_owned().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let this = self.clone();
        let made = tokio::task::spawn_blocking(move || {
            let text = match format {
                Format::OpenMetrics => this.text()?,
                Format::Plain => plain(&this.text()?),
            };
            let text = Bytes::from(text);
            *last = Some((Instant::now(), text.clone()));
            Ok(text)
        });
        // A source that panics has said so in the log.
        made.await.unwrap_or(Err(fmt::Error))
    }
}

struct Sourced<F>(F);

impl<F> fmt::Debug for Sourced<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sourced")
    }
}

impl<F: Fn(&mut Samples) + Send + Sync + 'static> Collector for Sourced<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut samples = Samples::default();
        (self.0)(&mut samples);
        for (metric, values) in samples.0 {
            // The encoder adds the suffix of counters itself.
            let name = metric.name().strip_suffix("_total").unwrap_or(metric.name());
            let kind = match metric.kind() {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(name, metric.help(), None, kind)?;
            for (labels, value) in values {
                if labels.is_empty() {
                    write(&mut family, &value)?;
                } else {
                    write(&mut family.encode_family(&labels)?, &value)?;
                }
            }
        }
        Ok(())
    }
}

fn write(encoder: &mut MetricEncoder<'_>, value: &Value) -> Result<(), fmt::Error> {
    match value {
        Value::Counter(value) => encoder.encode_counter::<NoLabelSet, u64, u64>(value, None),
        Value::Amount(value) => encoder.encode_counter::<NoLabelSet, f64, f64>(value, None),
        Value::Gauge(value) => encoder.encode_gauge(value),
        Value::Histogram(h) => encoder.encode_histogram::<NoLabelSet>(h.sum, h.count, &h.buckets, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use std::time::Duration;

    #[test]
    fn samples_are_written_as_open_metrics() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_millis(3));
        let exposition = Exposition::new(move |samples| {
            samples.counter(Metric::ScheduleAttempts, &[("result", "scheduled"), ("profile", "a")], 7);
            samples.gauge(Metric::Leader, &[], 1.0);
            samples.histogram(Metric::BindDuration, &[("profile", "a")], histogram.snapshot());
        });
        let text = exposition.text().unwrap();
        for line in [
            "# TYPE scheduler_schedule_attempts counter",
            r#"scheduler_schedule_attempts_total{result="scheduled",profile="a"} 7"#,
            "berth_leader 1.0",
            r#"berth_bind_duration_seconds_bucket{le="0.002",profile="a"} 0"#,
            r#"berth_bind_duration_seconds_bucket{le="0.004",profile="a"} 1"#,
            r#"berth_bind_duration_seconds_bucket{le="+Inf",profile="a"} 1"#,
            r#"berth_bind_duration_seconds_count{profile="a"} 1"#,
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }

    #[tokio::test]
    async fn all_who_ask_within_a_second_get_one_text() {
        let renderings = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = renderings.clone();
        let exposition = Exposition::new(move |samples| {
            let number = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            samples.gauge(Metric::Leader, &[], number as f64);
        });
        let (one, two) = tokio::join!(exposition.shared(Format::Plain), exposition.shared(Format::Plain));
        assert_eq!(one.unwrap().as_ptr(), two.unwrap().as_ptr());
        let ended = Instant::now() + Duration::from_secs(20);
        while renderings.load(std::sync::atomic::Ordering::SeqCst) < 2 {
            assert!(Instant::now() < ended, "the text is never made anew");
            exposition.shared(Format::Plain).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[test]
    fn label_values_are_escaped() {
        let exposition = Exposition::new(|s| s.gauge(Metric::Leader, &[("holder", "a\"b\nc")], 1.0));
        assert!(exposition.text().unwrap().contains(r#"holder="a\"b\nc""#));
    }
}
