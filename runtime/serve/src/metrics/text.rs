//! The texts in which metrics are told to a scraper.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// A form of the text, by what a scraper accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposition {
    /// OpenMetrics 1.0.
    Open,
    /// Prometheus' own text format 0.0.4, which all scrapers read.
    Classic,
}

impl Exposition {
    /// The form for a scraper that sends this `Accept` header.
    pub(crate) fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::Open
        } else {
            Self::Classic
        }
    }

    /// The `Content-Type` of the text.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The text of all metrics in a registry.
    pub(super) fn of(self, registry: &Registry) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, registry)?;
        Ok(match self {
            Self::Open => text,
            Self::Classic => classic(&text),
        })
    }
}

/// The classic form of a text of OpenMetrics: counters are described under the names of their samples, with `_total`, and no mark ends the
/// text.
fn classic(open: &str) -> String {
    let lines: Vec<&str> = open.lines().filter(|line| *line != "# EOF").collect();
    let counter = |line: &str| {
        let described = line.strip_prefix("# TYPE ")?;
        described.strip_suffix(" counter").map(str::to_owned)
    };
    let mut text = String::with_capacity(open.len());
    for (at, line) in lines.iter().enumerate() {
        // The help of a metric stands before its type.
        let name = counter(line).or_else(|| {
            let next = lines.get(at + 1)?;
            line.starts_with("# HELP ").then(|| counter(next))?
        });
        match name {
            Some(name) => {
                let total = format!("{name}_total");
                text.push_str(&line.replacen(&name, &total, 1));
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_under_their_samples_names() {
        let open = "# HELP a_b Counted.\n# TYPE a_b counter\na_b_total{c=\"d\"} 1\n# HELP g Told.\n# TYPE g gauge\ng 2\n# EOF\n";
        let expected = "# HELP a_b_total Counted.\n# TYPE a_b_total counter\na_b_total{c=\"d\"} 1\n# HELP g Told.\n# TYPE g gauge\ng 2\n";
        assert_eq!(classic(open), expected);
    }

    #[test]
    fn scrapers_get_what_they_accept() {
        let open = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
        assert_eq!(Exposition::accepted(open), Exposition::Open);
        assert_eq!(Exposition::accepted("*/*"), Exposition::Classic);
    }
}
