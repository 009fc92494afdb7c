//! The charts of a certificate: what devices are like layer by layer.

use crate::certificate::{Certificate, Measured, Tested};
use crate::chart::{Chart, Series};

/// A chart of the distance after each layer, a line for each device; empty where nothing is to be drawn.
pub(super) fn distances(certificate: &Certificate) -> String {
    let title = "distance from the reference after each layer";
    drawn(certificate, [title, "relative L2 distance"], |tested| {
        let (parts, ..) = tested.model()?;
        // The last part of a layer replaces those before it.
        let mut points: Vec<(f64, f64)> = Vec::new();
        for Measured { distance, .. } in parts {
            let (Some(layer), Some(far)) = (distance.layer, distance.relative_l2) else {
                continue;
            };
            let layer = layer as f64;
            points.retain(|(earlier, _)| *earlier != layer);
            points.push((layer, far));
        }
        Some(points)
    })
}

/// A chart of the time of each layer, a line for each device; empty where nothing is to be drawn.
pub(super) fn times(certificate: &Certificate) -> String {
    let title = "time of each layer, in passes that wait for the device behind each";
    drawn(certificate, [title, "milliseconds"], |tested| {
        let costs = tested.costs()?.iter();
        let points = costs.filter_map(|cost| Some((cost.layer? as f64, 1e3 * cost.seconds)));
        Some(points.collect())
    })
}

/// A chart with a title and what its axis upwards counts, and the points of each device; a 0 has no place on a logarithmic axis.
fn drawn(
    certificate: &Certificate,
    [title, upwards]: [&'static str; 2],
    points: impl Fn(&Tested) -> Option<Vec<(f64, f64)>>,
) -> String {
    let series = certificate.devices.iter().filter_map(|tested| {
        let mut points = points(tested)?;
        points.retain(|(_, up)| *up > 0.0);
        let name = match &tested.adapter {
            Some(adapter) => format!("{} ({adapter})", tested.name()),
            None => tested.name(),
        };
        (!points.is_empty()).then_some(Series { name, points })
    });
    let series: Vec<Series> = series.collect();
    if series.is_empty() {
        return String::new();
    }
    let chart = Chart {
        title: title.to_owned(),
        names: ["layer", upwards],
        even: true,
        series,
    };
    chart.svg()
}
