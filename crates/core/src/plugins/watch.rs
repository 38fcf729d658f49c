use crate::model::Time;
use std::time::Duration;

/// Declares the parts once: name, the plugin and the extension point that metrics name, and what runs in it.
macro_rules! plugin_parts {
    ($( $(#[doc = $doc:literal])* $part:ident: $plugin:literal, $point:literal; )*) => {
        /// A part of an attempt that is one plugin's alone.
        ///
        /// The filters and scores of a node's own row are none: all of them are one function of some 50 ns.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PluginPart { $( $(#[doc = $doc])* $part, )* }

        impl PluginPart {
            pub const ALL: [Self; [$(Self::$part,)*].len()] = [$(Self::$part,)*];

            pub const fn plugin(self) -> &'static str {
                match self { $( Self::$part => $plugin, )* }
            }

            pub const fn extension_point(self) -> &'static str {
                match self { $( Self::$part => $point, )* }
            }
        }
    };
}

plugin_parts! {
    /// With VolumeRestrictions, NodeVolumeLimits and VolumeZone, which look at the same claims.
    Volumes: "VolumeBinding", "PreFilter";
    /// The plugins of the Policy era that count disks.
    Disks: "MaxVolumeCount", "PreFilter";
    Spread: "PodTopologySpread", "PreFilter";
    Affinity: "InterPodAffinity", "PreFilter";
    ServiceAffinity: "CheckServiceAffinity", "PreFilter";
    Claims: "DynamicResources", "PreFilter";
    ScoreSpread: "PodTopologySpread", "Score";
    ScoreAffinity: "InterPodAffinity", "Score";
    ScoreSelectorSpread: "SelectorSpread", "Score";
}

/// What single plugins took in one search, and whether each had something to do; nothing where it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PluginLaps([Option<(Duration, bool)>; PluginPart::ALL.len()]);

impl PluginLaps {
    pub fn all(&self) -> impl Iterator<Item = (PluginPart, Duration, bool)> {
        let parts = PluginPart::ALL.into_iter().zip(self.0);
        parts.filter_map(|(part, lap)| lap.map(|(took, ran)| (part, took, ran)))
    }

    fn record(&mut self, part: PluginPart, took: Duration, ran: bool) {
        let (before, ran_before) = self.0[part as usize].unwrap_or_default();
        self.0[part as usize] = Some((before + took, ran_before || ran));
    }
}

impl std::ops::Add for PluginLaps {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (part, took, ran) in other.all() {
            self.record(part, took, ran);
        }
        self
    }
}

/// Tells how much time has passed, if somebody gave it a clock.
pub(crate) struct Stopwatch<'a> {
    clock: Option<&'a dyn Fn() -> Time>,
    last: Time,
}

impl<'a> Stopwatch<'a> {
    pub(crate) fn start(clock: Option<&'a dyn Fn() -> Time>) -> Self {
        Self { clock, last: clock.map_or(Time::ZERO, |now| now()) }
    }

    /// The time since this was last asked; zero without a clock.
    pub(crate) fn lap(&mut self) -> Duration {
        let Some(clock) = self.clock else { return Duration::ZERO };
        let now = clock();
        let took = now.since(self.last);
        self.last = now;
        took
    }
}

/// Tells plugins apart in a search that somebody gave a clock.
pub(crate) struct PluginWatch<'a> {
    watch: Stopwatch<'a>,
    laps: PluginLaps,
}

impl<'a> PluginWatch<'a> {
    pub(crate) fn of(clock: Option<&'a dyn Fn() -> Time>) -> Self {
        Self { watch: Stopwatch::start(clock), laps: PluginLaps::default() }
    }

    /// Measures nothing.
    pub(crate) fn off() -> Self {
        Self::of(None)
    }

    /// What was measured since this was last asked.
    pub(crate) fn take(&mut self) -> PluginLaps {
        std::mem::take(&mut self.laps)
    }

    /// What is noted next begins here.
    pub(crate) fn begin(&mut self) {
        self.watch.lap();
    }

    /// As [`Self::end`], with what the plugin found: it may have refused the pod, or not have come to an end.
    pub(crate) fn end_of<T, E>(&mut self, part: PluginPart, found: Result<Option<T>, E>) -> Result<Option<T>, E> {
        self.end(part, !matches!(found, Ok(None)));
        found
    }

    /// The plugin of `part` ends here, and the next one begins. `ran`: it did not skip the pod.
    pub(crate) fn end(&mut self, part: PluginPart, ran: bool) {
        if self.watch.clock.is_some() {
            self.laps.record(part, self.watch.lap(), ran);
        }
    }
}
