//! Writes the Prometheus exposition, text format 0.0.4, and the reference's page about metrics.
//!
//! Handles the format; the content comes from the catalogue and the snapshot.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::fmt::{self, Write};

use crate::catalogue::{BUCKETS_US, Family, Labelled, MetricType, Process, Scope, Unit, families};
use crate::counters::{Counts, Durations, Sample, Snapshot};

/// Value of the `Content-Type` field.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most services, or servers of all services, for which zero counts are shown as well. A service
/// without traffic is 29 KB of zeros: 4,000 services would add 116 MB to a scrape.
pub const ZEROS_SHOWN_MAX: usize = 256;

/// One number under labels that are known only at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledValue {
    pub family: Labelled,
    /// Values of the labels, in the catalogue's order.
    pub labels: Vec<String>,
    pub value: u64,
}

pub fn write_prometheus(
    snapshot: &Snapshot,
    process: &Counts<Process>,
    labelled: &[LabelledValue],
    out: &mut String,
) {
    let services = &snapshot.services;
    let mut page = ExpositionPage { out };
    page.scope(services.iter().map(|one| (vec![&*one.name], &one.counts)));
    page.scope(services.iter().flat_map(|service| {
        let servers = service.servers.iter();
        servers.map(move |one| (vec![&*service.name, &one.name], &one.counts))
    }));
    let numbers: Vec<_> = (0..snapshot.workers.len()).map(|one| one.to_string()).collect();
    let workers = numbers.iter().zip(&snapshot.workers);
    page.scope(workers.map(|(number, counts)| (vec![&**number], counts)));
    page.scope(std::iter::once((Vec::new(), process)));
    for family in Labelled::ALL {
        page.head(family.family());
        for one in labelled.iter().filter(|one| one.family == *family) {
            let values = one.labels.iter().map(String::as_str);
            page.sample(
                family.family(),
                family.family().labels.iter().copied().zip(values),
                &[one.value],
            );
        }
    }
}

struct ExpositionPage<'a> {
    out: &'a mut String,
}

impl ExpositionPage<'_> {
    /// Writes all families of a scope, each with the rows of every subject, named by the values of
    /// the scope's labels. Gauges are always shown, because their zero has a meaning.
    fn scope<'b, S: Scope>(
        &mut self,
        counted: impl Iterator<Item = (Vec<&'b str>, &'b Counts<S>)>,
    ) {
        let mut counted: Vec<_> =
            counted.map(|(values, counts)| (values, counts.samples().peekable())).collect();
        let shows_zeros = counted.len() <= ZEROS_SHOWN_MAX;
        for family in S::FAMILIES.iter().copied().flatten().filter(|one| !one.rows.is_empty()) {
            self.head(family);
            for (values, samples) in &mut counted {
                while let Some(Sample { labels, values: numbers, .. }) =
                    samples.next_if(|sample| sample.family.name == family.name)
                {
                    let is_zero = numbers.iter().all(|number| *number == 0);
                    if is_zero && !shows_zeros && family.kind != MetricType::Gauge {
                        continue;
                    }
                    let of_scope = S::LABELS.iter().copied().zip(values.iter().copied());
                    let own = family.labels.iter().copied().zip(labels.iter().copied());
                    self.sample(family, of_scope.chain(own), numbers);
                }
            }
        }
    }

    fn head(&mut self, family: &Family) {
        let Family { name, kind, help, .. } = family;
        self.put(format_args!("# HELP {name} {}\n", EscapedText(help, false)));
        self.put(format_args!("# TYPE {name} {}\n", kind.name()));
    }

    fn sample<'b>(
        &mut self,
        family: &Family,
        labels: impl Iterator<Item = (&'b str, &'b str)>,
        numbers: &[u64],
    ) {
        let mut text = String::new();
        for (label, value) in labels {
            let comma = if text.is_empty() { "" } else { "," };
            write!(text, "{comma}{label}=\"{}\"", EscapedText(value, true)).expect("as in put");
        }
        let name = family.name;
        if family.kind == MetricType::Histogram {
            return self.histogram(name, &text, &Durations::of(numbers));
        }
        self.put(format_args!("{name}"));
        if !text.is_empty() {
            self.put(format_args!("{{{text}}}"));
        }
        match family.unit {
            Unit::Microseconds => self.put(format_args!(" {}\n", Seconds(numbers[0]))),
            _ => self.put(format_args!(" {}\n", numbers[0])),
        }
    }

    fn histogram(&mut self, name: &str, labels: &str, durations: &Durations) {
        let mut below = 0;
        for (bucket, bound) in durations.buckets.iter().zip(BUCKETS_US) {
            below += bucket;
            let bound = Seconds(bound);
            self.put(format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {below}\n"));
        }
        let (count, sum) = (durations.count(), Seconds(durations.sum_us));
        self.put(format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n"));
        self.put(format_args!("{name}_sum{{{labels}}} {sum}\n"));
        self.put(format_args!("{name}_count{{{labels}}} {count}\n"));
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        let written = self.out.write_fmt(text);
        written.expect("a String takes all that is written");
    }
}

/// Microseconds, shown as seconds without rounding error or trailing zeros.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let text = format!("{whole}.{fraction:06}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A label's value, or a help text, in which a quote is not escaped.
struct EscapedText<'a>(&'a str, bool);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '"' if self.1 => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Writes the catalogue as a Markdown list for the reference.
pub fn write_reference(out: &mut String) {
    for kind in [MetricType::Counter, MetricType::Gauge, MetricType::Histogram] {
        out.push_str(&format!("\n## Type `{}`\n\n", kind.name()));
        for (scope_labels, family) in families().filter(|(_, family)| family.kind == kind) {
            let own = family.labels.iter().map(|label| family.label(label));
            let scope_labels = scope_labels.iter().map(|label| (*label).to_owned());
            let labels: Vec<_> = scope_labels.chain(own).collect();
            let Family { name, help, .. } = family;
            let series = match labels.join(",") {
                none if none.is_empty() => (*name).to_owned(),
                labels => format!("{name}{{{labels}}}"),
            };
            out.push_str(&format!("- `{series}`: {help}\n"));
        }
    }
}

impl Family {
    /// Returns a label, with its values if they are known and it is the only one.
    fn label(&self, label: &str) -> String {
        let values: Vec<_> = self.rows.iter().map(|row| row[0]).collect();
        if self.labels.len() == 1 && !values.is_empty() {
            format!("{label}={}", values.join("|"))
        } else {
            label.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::catalogue::{Histogram, ProcessMetric, ServiceCounter, WorkerCounter, families};
    use crate::outcome::Reason;
    use crate::registry::Registry;

    fn page() -> String {
        let registry = Registry::new(2);
        let list = ["192.0.2.1:80".to_owned()];
        let web = registry.service(1, "a \"web\"\\\n", &list);
        web.add(ServiceCounter::BytesUp, 12);
        web.ended(Reason::NotTls);
        web.observe(Histogram::Dial, Duration::from_micros(70));
        web.observe(Histogram::Dial, Duration::from_secs(100));
        registry.worker(1).add(WorkerCounter::BusyMicroseconds, 1_250_000);
        let mut process = Counts::default();
        process.set(ProcessMetric::Generation, 4);
        let labelled = [
            (Labelled::BuildInfo, vec!["1.2.3"], 1),
            (
                Labelled::CertificateExpiry,
                vec!["web", "site.pem", "example.com", "RSA"],
                1_900_000_000,
            ),
            (Labelled::CrlExpiry, vec!["web", "ca.crl", "CN=CA"], 1_700_000_000),
        ];
        let labelled = labelled.map(|(family, labels, value)| LabelledValue {
            family,
            labels: labels.into_iter().map(str::to_owned).collect(),
            value,
        });
        let mut out = String::new();
        write_prometheus(&registry.snapshot(), &process, &labelled, &mut out);
        out
    }

    fn has(page: &str, line: &str) {
        assert!(page.lines().any(|l| l == line), "no line {line} in\n{page}");
    }

    #[test]
    fn samples_carry_labels_units_and_escapes() {
        let page = page();
        has(
            &page,
            r#"lariat_relayed_bytes_total{service="a \"web\"\\\n",direction="client-to-backend"} 12"#,
        );
        has(
            &page,
            r#"lariat_connections_ended_total{service="a \"web\"\\\n",reason="not-tls",fault="client"} 1"#,
        );
        has(&page, r#"lariat_worker_busy_seconds_total{worker="1"} 1.25"#);
        has(&page, r#"lariat_build_info{version="1.2.3"} 1"#);
        has(&page, "lariat_config_generation 4");
        has(&page, r#"lariat_reloads_total{result="refused"} 0"#);
        for line in [
            r#"lariat_certificate_expiry_timestamp_seconds{service="web",file="site.pem",name="example.com",key="RSA"} 1900000000"#,
            r#"lariat_crl_expiry_timestamp_seconds{service="web",file="ca.crl",issuer="CN=CA"} 1700000000"#,
        ] {
            has(&page, line);
        }
        assert!(!page.contains("lariat_ocsp_response_expiry_timestamp_seconds{"));
        has(&page, r#"lariat_server_up{service="a \"web\"\\\n",server="192.0.2.1:80"} 1"#);
    }

    #[test]
    fn histograms_are_cumulative() {
        let page = page();
        let dial = |rest: &str| {
            let name = "lariat_dial_duration_seconds";
            has(&page, &format!(r#"{name}{}"#, rest.replace("{", r#"{service="a \"web\"\\\n","#)));
        };
        dial(r#"_bucket{le="0.00005"} 0"#);
        dial(r#"_bucket{le="0.0001"} 1"#);
        dial(r#"_bucket{le="60"} 1"#);
        dial(r#"_bucket{le="+Inf"} 2"#);
        has(&page, r#"lariat_dial_duration_seconds_sum{service="a \"web\"\\\n"} 100.00007"#);
        has(&page, r#"lariat_dial_duration_seconds_count{service="a \"web\"\\\n"} 2"#);
    }

    #[test]
    fn every_family_stands_once_with_help_and_type() {
        let page = page();
        for (_, Family { name, .. }) in families() {
            let count = |what: &str| page.matches(&format!("# {what} {name} ")).count();
            assert_eq!((count("HELP"), count("TYPE")), (1, 1), "{name}");
        }
    }

    #[test]
    fn of_many_services_counters_at_zero_are_left_out_and_gauges_stay() {
        let registry = Registry::new(1);
        let list = ["192.0.2.1:80".to_owned()];
        let names = (0..=ZEROS_SHOWN_MAX).map(|one| format!("s{one}"));
        let all: Vec<_> = names.map(|name| registry.service(0, &name, &list)).collect();
        all[7].ended(Reason::NotTls);
        let mut out = String::new();
        let process = Counts::default();
        write_prometheus(&registry.snapshot(), &process, &[], &mut out);
        has(
            &out,
            r#"lariat_connections_ended_total{service="s7",reason="not-tls",fault="client"} 1"#,
        );
        assert_eq!(out.matches("lariat_connections_ended_total{").count(), 1);
        assert_eq!(out.matches("_bucket{").count(), 0);
        has(&out, r#"lariat_connections_open{service="s8"} 0"#);
        has(&out, "lariat_reloads_total{result=\"refused\"} 0");
        let own = out.lines().filter(|line| line.contains(r#"{service="s8""#));
        let bytes: usize = own.map(str::len).sum();
        assert!(bytes < 3000, "{bytes} bytes of a service without traffic");
    }

    #[test]
    fn no_series_stands_twice_and_every_line_has_a_value() {
        let page = page();
        let mut seen = HashSet::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(seen.insert(series), "{series} stands twice");
        }
    }
}
