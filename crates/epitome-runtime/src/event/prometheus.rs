//! Metrics: events counted, in Prometheus' text format.
//!
//! They are counted in a recorder of their own; the embedding program's is left alone, and nothing listens on a port.
//! No tenant, thread or artifact is a label. A label's value is one of a closed set, but for the policies, which operators
//! name: those are counted by name up to a limit, and as `other` from then on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use epitome::policy::Rung;
use epitome::summary::SummaryAuthor;
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use serde_json::Value;

use super::{Event, EventField, EventKind, JobStage, Listener};
use crate::summarize::NoSummaryReason;

const COMPACTIONS: &str = "epitome_compactions_total";
const COMPACTIONS_FAILED: &str = "epitome_compactions_failed_total";
const TOKENS_FREED: &str = "epitome_tokens_freed_total";
const PROMPT_TOKENS: &str = "epitome_prompt_tokens";
const SUMMARY_FALLBACKS: &str = "epitome_summary_fallbacks_total";
const SUMMARY_CACHE_HITS: &str = "epitome_summary_cache_hits_total";
const REHYDRATIONS: &str = "epitome_rehydrations_total";
const ARTIFACT_READS: &str = "epitome_artifact_reads_total";
const ARTIFACT_DENIED: &str = "epitome_artifact_denied_total";
const JOBS: &str = "epitome_jobs_total";
const OVERFLOWS: &str = "epitome_overflows_total";
const CONTEXT_MISSED: &str = "epitome_context_missed_total";
const CONFLICTS: &str = "epitome_commit_conflicts_total";
const PASSAGES_EMBEDDED: &str = "epitome_passages_embedded_total";
const EMBEDDING_FAILURES: &str = "epitome_embedding_failures_total";

/// The counters without labels, which are there from the start, and what they count.
const PLAIN: [(&str, &str); 10] = [
    (COMPACTIONS_FAILED, "Compactions that were planned and could not be committed."),
    (SUMMARY_CACHE_HITS, "Summaries found in the cache."),
    (REHYDRATIONS, "Times that moved-out content was read back into a prompt automatically."),
    (ARTIFACT_READS, "Artifacts read by an explicit call."),
    (ARTIFACT_DENIED, "Artifact reads that were denied."),
    (OVERFLOWS, "Prompts that a provider refused as too long."),
    (CONTEXT_MISSED, "Times that the agent asked again for something that was compacted away."),
    (CONFLICTS, "Commits that lost the race against another process."),
    (PASSAGES_EMBEDDED, "Passages that got a vector for search by meaning."),
    (EMBEDDING_FAILURES, "Times that the embedding endpoint gave no vectors for a search or for passages."),
];

/// The counters with labels, and what they count.
const LABELED: [(&str, &str); 4] = [
    (COMPACTIONS, "Compactions committed, by policy and by author of the summary."),
    (TOKENS_FREED, "Tokens freed, by rung."),
    (
        SUMMARY_FALLBACKS,
        "Summaries that the embedded summarizer wrote because the model's could not be used, by reason.",
    ),
    (JOBS, "Background jobs, by the stage that they reached."),
];

const PROMPT_BUCKETS: [f64; 10] = [1e3, 4e3, 8e3, 16e3, 32e3, 64e3, 128e3, 200e3, 400e3, 1e6];

/// The most characters of a policy's name as a label, and the most policies that are counted by name.
const POLICY_CHARS_MAX: usize = 60;
const POLICIES_MAX: usize = 200;

/// The label of a value that is outside its closed set.
const OTHER: &str = "other";

/// Histograms keep samples until somebody looks; after so many events they are folded in any case.
const FOLD_EVERY: u64 = 1024;

/// A listener that counts, and tells what it counted.
pub struct CompactionMetrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    heard: AtomicU64,
    policies: Mutex<BTreeSet<String>>,
}

impl Default for CompactionMetrics {
    fn default() -> Self {
        let recorder = recorder();
        let handle = recorder.handle();
        CompactionMetrics { recorder, handle, heard: AtomicU64::new(0), policies: Mutex::default() }
    }
}

impl CompactionMetrics {
    /// Metrics that are all zero.
    pub fn new() -> Self {
        CompactionMetrics::default()
    }

    /// Everything counted so far, in Prometheus' text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    fn count(&self, event: &Event) {
        match event.kind {
            EventKind::CompactionCompleted => self.count_compaction(event),
            EventKind::CompactionFailed => counter!(COMPACTIONS_FAILED).increment(1),
            EventKind::CompactionConflict => counter!(CONFLICTS).increment(1),
            EventKind::SummaryFellBack => {
                counter!(SUMMARY_FALLBACKS, "reason" => reason_label(event)).increment(1);
            }
            EventKind::SummaryCached => counter!(SUMMARY_CACHE_HITS).increment(1),
            EventKind::CompactionRehydrated => counter!(REHYDRATIONS).increment(1),
            EventKind::ArtifactRead => counter!(ARTIFACT_READS).increment(1),
            EventKind::ArtifactDenied => counter!(ARTIFACT_DENIED).increment(1),
            EventKind::JobQueued => count_job(JobStage::Queued),
            EventKind::JobStarted => count_job(JobStage::Started),
            EventKind::JobFinished => {
                let is_failed = event.detail(EventField::State).is_some_and(|state| state == JobStage::Failed.name());
                count_job(if is_failed { JobStage::Failed } else { JobStage::Done });
            }
            EventKind::ModelOverflowed => counter!(OVERFLOWS).increment(1),
            EventKind::ContextMissed => counter!(CONTEXT_MISSED).increment(1),
            EventKind::PassagesEmbedded => {
                let passages = event.detail(EventField::Passages).and_then(Value::as_u64);
                counter!(PASSAGES_EMBEDDED).increment(passages.unwrap_or(0));
            }
            EventKind::EmbeddingFailed => counter!(EMBEDDING_FAILURES).increment(1),
            kind => count_freed(kind, event.tokens_freed),
        }
    }

    fn count_compaction(&self, event: &Event) {
        counter!(COMPACTIONS, "policy" => self.policy_label(event), "author" => author_label(event)).increment(1);
        histogram!(PROMPT_TOKENS, "when" => "before").record(event.tokens_before as f64);
        histogram!(PROMPT_TOKENS, "when" => "after").record(event.tokens_after as f64);
    }

    /// The policy's name where it is short and one of the first that were seen.
    fn policy_label(&self, event: &Event) -> String {
        let Some(name) = event.detail(EventField::Policy).and_then(Value::as_str) else { return "unknown".to_owned() };
        let Ok(mut policies) = self.policies.lock() else { return OTHER.to_owned() };
        let is_counted = is_name(name)
            && (policies.contains(name) || (policies.len() < POLICIES_MAX && policies.insert(name.to_owned())));
        if is_counted { name.to_owned() } else { OTHER.to_owned() }
    }
}

impl Listener for CompactionMetrics {
    fn hear(&self, event: &Event) {
        with_local_recorder(&self.recorder, || self.count(event));
        if self.heard.fetch_add(1, Ordering::Relaxed) % FOLD_EVERY == FOLD_EVERY - 1 {
            self.handle.run_upkeep();
        }
    }
}

impl fmt::Debug for CompactionMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("heard", &self.heard).finish_non_exhaustive()
    }
}

fn recorder() -> PrometheusRecorder {
    let prompts = Matcher::Full(PROMPT_TOKENS.to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(prompts, &PROMPT_BUCKETS).expect("there are buckets");
    let recorder = builder.build_recorder();
    with_local_recorder(&recorder, describe);
    recorder
}

fn describe() {
    for (name, about) in PLAIN {
        describe_counter!(name, about);
        counter!(name).absolute(0);
    }
    for (name, about) in LABELED {
        describe_counter!(name, about);
    }
    describe_histogram!(PROMPT_TOKENS, Unit::Count, "Tokens of a prompt, before and after a compaction.");
}

fn count_job(stage: JobStage) {
    counter!(JOBS, "state" => stage.name()).increment(1);
}

fn reason_label(event: &Event) -> &'static str {
    let Some(name) = event.detail(EventField::Reason).and_then(Value::as_str) else { return "unknown" };
    NoSummaryReason::from_name(name).map_or(OTHER, NoSummaryReason::name)
}

fn author_label(event: &Event) -> &'static str {
    match event.detail(EventField::Author) {
        None | Some(Value::Null) => "none",
        Some(author) => match serde_json::from_value(author.clone()) {
            Ok(SummaryAuthor::Embedded) => "embedded",
            Ok(SummaryAuthor::Model) => "model",
            Err(_) => OTHER,
        },
    }
}

/// The rungs are told by what they did; every other kind frees nothing.
fn count_freed(kind: EventKind, tokens: u64) {
    let rung = match kind {
        EventKind::CompactionDeduplicated => Rung::Deduplicate,
        EventKind::CompactionSuperseded => Rung::Supersede,
        EventKind::CompactionExternalized => Rung::Externalize,
        EventKind::CompactionSummarized => Rung::Summarize,
        EventKind::CompactionCleared => Rung::Clear,
        EventKind::CompactionDropped => Rung::Drop,
        EventKind::CompactionTrimmed => Rung::Trim,
        _ => return,
    };
    counter!(TOKENS_FREED, "rung" => rung.name()).increment(tokens);
}

fn is_name(value: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._@/:-".contains(c);
    !value.is_empty() && value.len() <= POLICY_CHARS_MAX && value.chars().all(fine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Moment, TenantId, ThreadKey};

    fn event(kind: EventKind) -> Event {
        let key =
            ThreadKey::new("acme-tenant".parse::<TenantId>().expect("a name"), "the-thread".parse().expect("a name"));
        Event::new(Moment(1), key, kind)
    }

    fn told(events: impl IntoIterator<Item = Event>) -> String {
        let metrics = CompactionMetrics::new();
        events.into_iter().for_each(|event| metrics.hear(&event));
        metrics.render()
    }

    #[test]
    fn each_kind_of_event_is_counted_under_its_name() {
        let completed = Event { tokens_before: 9000, tokens_after: 2500, ..event(EventKind::CompactionCompleted) }
            .with(EventField::Policy, "coding@3")
            .with(EventField::Author, "model");
        let freed = |kind, tokens_freed| Event { tokens_freed, ..event(kind) };
        let cases: [(Event, &str); 19] = [
            (completed.clone(), "epitome_compactions_total{policy=\"coding@3\",author=\"model\"} 1"),
            (completed.clone(), "epitome_prompt_tokens_bucket{when=\"before\",le=\"16000\"} 1"),
            (completed, "epitome_prompt_tokens_sum{when=\"after\"} 2500"),
            (event(EventKind::CompactionCompleted), "epitome_compactions_total{policy=\"unknown\",author=\"none\"} 1"),
            (freed(EventKind::CompactionCleared, 70), "epitome_tokens_freed_total{rung=\"clear\"} 70"),
            (freed(EventKind::CompactionTrimmed, 30), "epitome_tokens_freed_total{rung=\"trim\"} 30"),
            (
                event(EventKind::SummaryFellBack).with(EventField::Reason, "late"),
                "epitome_summary_fallbacks_total{reason=\"late\"} 1",
            ),
            (event(EventKind::SummaryCached), "epitome_summary_cache_hits_total 1"),
            (event(EventKind::CompactionRehydrated), "epitome_rehydrations_total 1"),
            (event(EventKind::ArtifactRead), "epitome_artifact_reads_total 1"),
            (event(EventKind::ArtifactDenied), "epitome_artifact_denied_total 1"),
            (event(EventKind::JobQueued), "epitome_jobs_total{state=\"queued\"} 1"),
            (event(EventKind::JobFinished).with(EventField::State, "failed"), "epitome_jobs_total{state=\"failed\"} 1"),
            (event(EventKind::ModelOverflowed), "epitome_overflows_total 1"),
            (event(EventKind::ContextMissed), "epitome_context_missed_total 1"),
            (event(EventKind::CompactionConflict), "epitome_commit_conflicts_total 1"),
            (event(EventKind::CompactionFailed), "epitome_compactions_failed_total 1"),
            (event(EventKind::EmbeddingFailed), "epitome_embedding_failures_total 1"),
            (event(EventKind::PassagesEmbedded).with(EventField::Passages, 40), "epitome_passages_embedded_total 40"),
        ];
        for (event, expected) in cases {
            let text = told([event]);
            assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
        }
    }

    /// A sample line: its name without the labels.
    fn sample(line: &str) -> Option<&str> {
        let (series, value) = line.rsplit_once(' ')?;
        value.parse::<f64>().ok()?;
        let (name, labels) = series.split_once('{').map_or((series, None), |(name, rest)| (name, Some(rest)));
        let quoted = |label: &str| label.split_once("=\"").is_some_and(|(_, value)| value.ends_with('"'));
        let fine = labels.is_none_or(|rest| rest.strip_suffix('}').is_some_and(|rest| rest.split(',').all(quoted)));
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        (fine && is_name).then_some(name)
    }

    #[test]
    fn every_line_can_be_read_and_every_metric_has_help_and_a_type() {
        let kinds = [EventKind::CompactionCompleted, EventKind::CompactionDropped, EventKind::JobStarted];
        let text = told(kinds.map(|kind| event(kind).with(EventField::Policy, "a\"b\\c\nd")));
        let described = |what: &str| -> BTreeSet<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(what));
            lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
        };
        let (help, types) = (described("# HELP "), described("# TYPE "));
        assert_eq!(help, types);
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let name = sample(line).unwrap_or_else(|| panic!("{line:?} cannot be read"));
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(types.contains(family), "{family} has no type in\n{text}");
        }
        assert!(PLAIN.iter().all(|(name, _)| types.contains(*name)), "{text}");
    }

    #[test]
    fn a_label_is_one_of_a_few_short_names_and_never_whose_thread_it_is() {
        let wordy =
            event(EventKind::SummaryFellBack).with(EventField::Reason, "the model said: my password is hunter2");
        let many =
            (0..500).map(|number| event(EventKind::CompactionCompleted).with(EventField::Policy, format!("p{number}")));
        let text = told(many.chain([wordy]));
        assert!(!text.contains("hunter2") && !text.contains("acme-tenant") && !text.contains("the-thread"));
        assert!(text.contains("epitome_summary_fallbacks_total{reason=\"other\"} 1"), "{text}");
        assert!(text.contains("policy=\"other\",author=\"none\"} 300"), "{text}");
    }

    #[test]
    fn two_metrics_in_one_program_count_apart() {
        let (one, other) = (CompactionMetrics::new(), CompactionMetrics::new());
        one.hear(&event(EventKind::ArtifactRead));
        assert!(one.render().contains("epitome_artifact_reads_total 1"));
        assert!(other.render().contains("epitome_artifact_reads_total 0"));
    }
}
