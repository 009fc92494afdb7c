//! The files in `docs/deploy/` are well-formed and complete: metrics of board, alerts and autoscaler are in the committed list of
//! the server's metrics, manifests have what a careful cluster asks for, and the unit and the container run without root.
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use moebius_tree::{assert_none, root};
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::{Value, json};

const BOARD: &str = "grafana/moebius.json";
const ALERTS: &str = "prometheus/alerts.yml";
const ADAPTER: &str = "prometheus/adapter.yaml";
const SCRAPE: &str = "prometheus/prometheus.yml";
const CLUSTER: &str = "kubernetes/moebius.yaml";
const UNIT: &str = "systemd/moebius.service";

fn read(name: &str) -> String {
    fs::read_to_string(root().join("docs/deploy").join(name)).unwrap()
}

/// The documents of a text in YAML.
fn documents(text: &str) -> Vec<Value> {
    let documents = Yaml::load_from_str(text).unwrap();
    documents.iter().map(value).collect()
}

/// A document in YAML as JSON.
fn value(yaml: &Yaml<'_>) -> Value {
    if let Some(entries) = yaml.as_mapping() {
        let pairs = entries.iter();
        let pairs = pairs.map(|(key, entry)| (key.as_str().unwrap().to_owned(), value(entry)));
        Value::Object(pairs.collect())
    } else if let Some(items) = yaml.as_sequence() {
        items.iter().map(value).collect()
    } else if let Some(text) = yaml.as_str() {
        json!(text)
    } else if let Some(flag) = yaml.as_bool() {
        json!(flag)
    } else if let Some(number) = yaml.as_integer() {
        json!(number)
    } else if let Some(number) = yaml.as_floating_point() {
        json!(number)
    } else {
        assert!(yaml.is_null(), "no value of YAML's core: {yaml:?}");
        Value::Null
    }
}

/// A metric of the server.
struct Metric {
    kind: String,
    /// Labels of its own, beside those of all metrics.
    labels: BTreeSet<String>,
}

/// The committed list of the server's metrics.
fn metrics() -> BTreeMap<String, Metric> {
    let text = read("metrics.tsv");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let metrics = rows.map(|row| {
        let cells: Vec<&str> = row.split('\t').collect();
        let [name, kind, labels] = cells[..] else {
            unreachable!("expected name, type and labels, got {row:?}");
        };
        let labels = labels.split(',').filter(|label| !label.is_empty());
        let metric = Metric {
            kind: kind.to_owned(),
            labels: labels.map(str::to_owned).collect(),
        };
        (name.to_owned(), metric)
    });
    metrics.collect()
}

/// The names of metrics in an expression, each with the text in the braces after it.
fn named(expression: &str) -> Vec<(&str, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let starts = expression.match_indices("moebius_").map(|(at, _)| at);
    let starts = starts.filter(|&at| !expression[..at].ends_with(part));
    let pair = |at: usize| {
        let rest = &expression[at..];
        let (name, after) = rest.split_at(rest.find(|c: char| !part(c)).unwrap_or(rest.len()));
        let braces = after
            .strip_prefix('{')
            .and_then(|inner| inner.split('}').next());
        (name, braces.unwrap_or_default())
    };
    starts.map(pair).collect()
}

/// Labels that all metrics have: the server's own, and those that the scraper adds.
const LABELS_OF_ALL: [&str; 5] = ["model_name", "instance", "job", "namespace", "pod"];

/// What is wrong with an expression, if anything.
fn fault(expression: &str, metrics: &BTreeMap<String, Metric>) -> Option<String> {
    let named = named(expression);
    if named.is_empty() {
        return Some(format!("names no metric of the server: {expression}"));
    }
    for (name, braces) in named {
        let endings = ["_bucket", "_sum", "_count"];
        let base = endings.iter().find_map(|ending| name.strip_suffix(ending));
        let histogram = base.and_then(|base| metrics.get(base));
        let metric = match (metrics.get(name), histogram) {
            // The samples of a histogram have the endings, and no sample is without.
            (Some(metric), _) if metric.kind != "histogram" => metric,
            (_, Some(metric)) if metric.kind == "histogram" => metric,
            _ => return Some(format!("names {name}, which no sample has: {expression}")),
        };
        let labels = braces.split(',').filter_map(|matcher| {
            let end = matcher.find(['=', '!'])?;
            Some(matcher[..end].trim())
        });
        for label in labels {
            if !LABELS_OF_ALL.contains(&label) && !metric.labels.contains(label) {
                return Some(format!("{name} has no label {label}: {expression}"));
            }
        }
    }
    None
}

/// The values of all entries called `key`, at any depth.
fn entries<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                if name == key {
                    found.push(inner);
                }
                entries(inner, key, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| entries(item, key, found)),
        _ => {}
    }
}

/// The texts of all entries called `key`; at least `least` of them.
fn texts(value: &Value, key: &str, least: usize) -> Vec<String> {
    let mut found = Vec::new();
    entries(value, key, &mut found);
    assert!(found.len() >= least, "{} entries {key}", found.len());
    found
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_list_of_metrics_is_sorted_and_whole() {
    let text = read("metrics.tsv");
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(rows.is_sorted(), "{rows:?}");
    let metrics = metrics();
    assert_eq!(metrics.len(), rows.len(), "a metric is listed twice");
    for (name, metric) in &metrics {
        let known = ["counter", "gauge", "histogram"].contains(&metric.kind.as_str());
        assert!(
            name.starts_with("moebius_") && known,
            "{name} {}",
            metric.kind
        );
        // Prometheus' own rule for the names of counters.
        assert!(
            metric.kind != "counter" || name.ends_with("_total"),
            "{name}"
        );
    }
}

#[test]
fn board_and_alerts_name_metrics_of_the_server() {
    let metrics = metrics();
    let board: Value = serde_json::from_str(&read(BOARD)).unwrap();
    let alerts = documents(&read(ALERTS)).remove(0);
    let mut expressions = texts(&board, "expr", 20);
    expressions.extend(texts(&alerts, "expr", 8));
    let queries = texts(&board["templating"], "query", 3);
    expressions.extend(
        queries
            .into_iter()
            .filter(|query| query.starts_with("label_values")),
    );
    let adapter = documents(&read(ADAPTER)).remove(0);
    for key in ["seriesQuery", "metricsQuery", "as"] {
        expressions.extend(texts(&adapter, key, 1));
    }
    let faults: Vec<String> = expressions
        .iter()
        .filter_map(|one| fault(one, &metrics))
        .collect();
    assert_none("Expressions in docs/deploy/:", &faults);
    // What is measured is shown.
    let shown: BTreeSet<&str> = expressions
        .iter()
        .flat_map(|one| named(one))
        .map(|(name, _)| name)
        .collect();
    let hidden = metrics.keys().filter(|name| {
        let samples = ["", "_bucket", "_sum", "_count"].map(|ending| format!("{name}{ending}"));
        !samples.iter().any(|sample| shown.contains(sample.as_str()))
    });
    assert_none(
        "Metrics that neither board nor alerts show:",
        &hidden.cloned().collect::<Vec<_>>(),
    );
}

#[test]
fn a_wrong_expression_is_found() {
    let metrics = metrics();
    for (expression, good) in [
        ("rate(moebius_prompt_tokens_total[5m])", true),
        (
            "sum by (code) (rate(moebius_request_failures_total{code=~\"5..\", model_name!=\"a\"}[5m]))",
            true,
        ),
        ("rate(moebius_iteration_tokens_total_bucket[5m])", true),
        ("up == 0", false),
        ("moebius_prompt_tokens", false),
        ("moebius_num_requests_running_sum", false),
        ("rate(moebius_iteration_tokens_total[5m])", false),
        ("moebius_build_info{code=\"5\"}", false),
        ("moebius_num_requests_waiting + moebius_queue", false),
        ("x_moebius_build_info", false),
    ] {
        assert_eq!(fault(expression, &metrics).is_none(), good, "{expression}");
    }
}

#[test]
fn every_alert_says_what_is_wrong_and_how_bad() {
    let alerts = documents(&read(ALERTS)).remove(0);
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    let mut names = BTreeSet::new();
    for rule in rules {
        assert!(names.insert(rule["alert"].as_str().unwrap()), "{rule}");
        assert!(rule["annotations"]["summary"].is_string(), "{rule}");
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["warning", "critical"].contains(&severity), "{rule}");
    }
    let scrape = documents(&read(SCRAPE)).remove(0);
    assert_eq!(scrape["rule_files"], json!(["alerts.yml"]));
    for job in scrape["scrape_configs"].as_array().unwrap() {
        assert_eq!(job["metrics_path"], "/metrics");
        assert!(
            job["authorization"]["credentials_file"].is_string(),
            "{job}"
        );
    }
}

/// A panel that lies on another, or has another's number, is shown wrongly.
#[test]
fn panels_have_their_own_places() {
    let board: Value = serde_json::from_str(&read(BOARD)).unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in board["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24, "{panel}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{} lies on another", panel["title"]);
        }
    }
}

/// The object of a kind among the manifests.
fn of_kind<'a>(manifests: &'a [Value], kind: &str) -> &'a Value {
    let mut found = manifests.iter().filter(|manifest| manifest["kind"] == kind);
    let one = found.next().unwrap();
    assert!(found.next().is_none(), "two of {kind}");
    one
}

#[test]
fn manifests_have_what_a_careful_cluster_asks_for() {
    let manifests = documents(&read(CLUSTER));
    for manifest in &manifests {
        for field in ["/apiVersion", "/kind", "/metadata/name"] {
            assert!(
                manifest.pointer(field).is_some_and(Value::is_string),
                "{field}: {manifest}"
            );
        }
    }
    let deployment = of_kind(&manifests, "Deployment");
    let pod = &deployment["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], *labels);
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        spec["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let security = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
    });
    assert_eq!(container["securityContext"], security);
    for (probe, path) in [
        ("startupProbe", "/health/ready"),
        ("livenessProbe", "/health/live"),
        ("readinessProbe", "/health/ready"),
    ] {
        assert_eq!(container[probe]["httpGet"]["path"], path);
    }
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        for bound in ["requests", "limits"] {
            assert!(
                container["resources"][bound][resource].is_string(),
                "{bound} {resource}"
            );
        }
    }
    // The pod is killed after the server's own limit of 30 s, and not before.
    let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap();
    let before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        .as_u64()
        .unwrap();
    assert!(grace > before + 30, "{grace} s");
    let volumes = spec["volumes"].as_array().unwrap();
    let volumes: BTreeSet<&str> = volumes
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for mount in container["volumeMounts"].as_array().unwrap() {
        assert!(volumes.contains(mount["name"].as_str().unwrap()), "{mount}");
        assert!(
            mount["name"] == "cache" || mount["readOnly"] == true,
            "{mount}"
        );
    }
    assert_eq!(of_kind(&manifests, "Service")["spec"]["selector"], *labels);
    let budget = &of_kind(&manifests, "PodDisruptionBudget")["spec"];
    assert_eq!(budget["selector"]["matchLabels"], *labels);
    let scaler = &of_kind(&manifests, "HorizontalPodAutoscaler")["spec"];
    // Each `kubectl apply` would undo what the autoscaler has done.
    assert!(deployment["spec"]["replicas"].is_null(), "{deployment}");
    let least = scaler["minReplicas"].as_u64().unwrap();
    assert!(budget["minAvailable"].as_u64().unwrap() < least, "{budget}");
    assert_eq!(
        scaler["scaleTargetRef"]["name"],
        deployment["metadata"]["name"]
    );
    let metric = scaler["metrics"][0]["pods"]["metric"]["name"]
        .as_str()
        .unwrap();
    assert_eq!(metrics()[metric].kind, "gauge");
    let adapted = documents(&read(ADAPTER)).remove(0);
    assert_eq!(adapted["rules"]["custom"][0]["name"]["as"], metric);
}

#[test]
fn the_unit_gives_away_as_little_as_it_can() {
    let unit = read(UNIT);
    for line in [
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "PrivateUsers=yes",
        "ProtectKernelModules=yes",
        "MemoryDenyWriteExecute=yes",
        "CapabilityBoundingSet=",
        "RestrictNamespaces=yes",
        "RestrictAddressFamilies=AF_INET AF_INET6",
        "SystemCallFilter=@system-service",
        "RestartPreventExitStatus=2",
    ] {
        assert!(unit.lines().any(|one| one == line), "{UNIT} lacks {line}");
    }
    let start = unit
        .lines()
        .find(|line| line.starts_with("ExecStart="))
        .unwrap();
    assert!(
        start.contains("--keys %d/keys") && unit.contains("LoadCredential=keys:"),
        "{start}"
    );
    assert!(!start.contains("--insecure"), "{start}");
}

#[test]
fn the_container_runs_without_root_and_shell() {
    let file = read("Containerfile");
    let last = file.rsplit("\nFROM ").next().unwrap();
    assert!(
        last.contains("distroless") && last.contains(":nonroot\n"),
        "{last}"
    );
    assert!(last.contains("\nUSER 65532:65532\n"), "{last}");
    assert!(!last.contains("\nRUN "), "{last}");
    // The image carries the licences of what the command links.
    assert!(file.contains("scripts/release --no-npm"), "{file}");
    assert!(file.contains("-C /out/usr/share/doc/moebius"), "{file}");
    let toolchain = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = toolchain.split("rust-version = \"").nth(1).unwrap();
    let version = version.split('"').next().unwrap();
    assert!(
        file.contains(&format!("rust:{version}-bookworm")),
        "another Rust than {version}"
    );
    // Pods and the container give the server the same words.
    let manifests = documents(&read(CLUSTER));
    let args =
        &of_kind(&manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"];
    let words = file
        .lines()
        .find_map(|line| line.strip_prefix("CMD "))
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(words).unwrap(), *args);
}
