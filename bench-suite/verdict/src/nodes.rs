//! Nodes that are slower than the others of their session.
//!
//! Both sides of a block run on one node, so that a slow one moves both alike and no ratio; what it
//! says of a node is worth knowing all the same.

use std::collections::{BTreeMap, BTreeSet};

use judge::{
    compare::{Direction, Kind},
    median,
};
use metrics::{Metric, Rows};

use crate::{
    Warning,
    side::{Cell, Runs},
};

/// Nodes of one kind are within this of each other; the noise of a run is well below.
const SLOWER: f64 = 0.03;
/// How many times as far from the others as these lie apart a node has to be.
const FAR: f64 = 3.0;

/// A node by which a metric lies behind on both sides and in every cell, for each such node and the
/// metric that it lies behind most in.
pub(crate) fn check(common: &[(&Cell, &Runs<'_>, &Runs<'_>)], rows: &Rows) -> Vec<Warning> {
    let sides = || common.iter().flat_map(|(_, base, head)| [*base, *head]);
    let hosts: BTreeSet<&str> = sides()
        .flat_map(|runs| runs.values().map(|run| run.host.as_str()))
        .collect();
    if hosts.len() < 2 {
        return Vec::new();
    }
    let metrics = rows
        .compared()
        .filter(|metric| metric.headline && metric.kind == Kind::TimeLike);
    let metrics: Vec<&Metric> = metrics.collect();
    let slow = |host: &&str| {
        let of = |metric: &&Metric| {
            let least = sides()
                .filter_map(|runs| behind(metric, runs, host))
                .reduce(f64::min)?;
            (least > SLOWER).then_some((least, metric.name))
        };
        let most = metrics
            .iter()
            .filter_map(of)
            .max_by(|one, other| one.0.total_cmp(&other.0));
        let (share, metric) = most?;
        let others = hosts.iter().filter(|other| *other != host);
        Some(Warning::SlowNode {
            node: (*host).to_owned(),
            metric: metric.to_owned(),
            share,
            others: others.map(|other| (*other).to_owned()).collect(),
        })
    };
    hosts.iter().filter_map(slow).collect()
}

/// By which share a metric on this node lies behind that on the others, 0 where it does not or it
/// may be chance; `None` where it is not on both.
fn behind(metric: &Metric, runs: &Runs<'_>, host: &str) -> Option<f64> {
    let mut of_hosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs.values() {
        if let Some(value) = metric.of(run).filter(|value| *value > 0.0) {
            let cost = match metric.direction {
                Direction::LowerIsBetter => value,
                Direction::HigherIsBetter => value.recip(),
            };
            of_hosts.entry(&run.host).or_default().push(cost.ln());
        }
    }
    let own = median(of_hosts.remove(host)?)?;
    let others: Vec<f64> = of_hosts.into_values().filter_map(median).collect();
    let centre = median(others.iter().copied())?;
    let spread = others
        .iter()
        .map(|other| (other - centre).abs())
        .fold(0.0, f64::max);
    let behind = own - centre;
    Some(if behind > FAR * spread {
        behind.exp_m1().max(0.0)
    } else {
        0.0
    })
}
