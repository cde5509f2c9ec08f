//! What the mock is to do in each run.

use std::time::Duration;

use protocol::FailureReason;
use record::{Reason, Stage};

use crate::{executors::Order, outcome::End, suite::Limits};

/// Hosts, and rules, the first that fits a run first.
#[derive(Debug, Clone)]
pub(super) struct Script {
    /// How many hosts with how many GPUs each; `None`: this machine.
    pub(super) hosts: Option<(u32, u32)>,
    rules: Vec<(String, Ending)>,
}

impl Script {
    pub(super) fn read(text: &str) -> Result<Self, MockError> {
        let (mut hosts, mut rules) = (None, Vec::new());
        let all = text.split([';', '\n']).map(str::trim);
        for rule in all.filter(|rule| !rule.is_empty()) {
            match layout(rule) {
                Some(layout) => hosts = Some(layout),
                None => rules.push(parse(rule).ok_or_else(|| MockError(rule.to_owned()))?),
            }
        }
        Ok(Self { hosts, rules })
    }

    pub(super) fn ending(&self, order: &Order) -> Ending {
        let work = &order.cell.work;
        let variant = work.program().is_none().then(|| work.variant());
        let named = variant.map(ToString::to_string).unwrap_or_default();
        let text = format!("{} {} {named}", order.run, order.cell.plan.image);
        let fits = |pattern: &str| pattern == "*" || text.contains(pattern);
        let rule = self.rules.iter().find(|(pattern, _)| fits(pattern));
        match rule.map(|(_, ending)| ending.clone()) {
            Some(Ending::Fits(most)) if variant.is_some_and(|of| of.batch.get() > most) => {
                Ending::Told(FailureReason::OutOfMemory)
            }
            Some(Ending::Fits(_)) | None => Ending::Ok { speed: 1.0 },
            Some(ending) => ending,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ending {
    Ok { speed: f64 },
    Told(FailureReason),
    Seen(End),
    Garbage,
    Torn,
    Invalid,
    Cancel,
    Sleep(Duration),
    Stubborn(Duration),
    Fits(u32),
}

/// Why a script cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no rule; expected hosts=N,gpus=N, or PATTERN=ENDING with an ending of ok, ok:X, oom, nan, libtorch, \
     exit:N, signal:N, host-oom, time-limit, hang, gpu-lost, garbage, torn, invalid, engine, image, cancel, sleep:MS, stubborn:MS"
)]
pub struct MockError(String);

impl Ending {
    /// How fast a run that goes well is.
    pub(super) fn speed(&self) -> f64 {
        match self {
            Self::Ok { speed } => *speed,
            _ => 1.0,
        }
    }
}

/// `hosts=2,gpus=4`.
fn layout(rule: &str) -> Option<(u32, u32)> {
    let (hosts, gpus) = rule.strip_prefix("hosts=")?.split_once(",gpus=")?;
    let hosts = hosts
        .parse()
        .ok()
        .filter(|hosts| (1..=64).contains(hosts))?;
    Some((hosts, gpus.parse().ok().filter(|gpus| *gpus <= 64)?))
}

fn parse(rule: &str) -> Option<(String, Ending)> {
    // A variant itself may hold `=`; an ending never does.
    let (pattern, ending) = rule.rsplit_once('=')?;
    let (word, value) = ending.trim().split_once(':').unwrap_or((ending.trim(), ""));
    let ending = match (word, value) {
        ("ok", "") => Ending::Ok { speed: 1.0 },
        ("ok", speed) => Ending::Ok {
            speed: speed
                .parse()
                .ok()
                .filter(|speed: &f64| speed.is_finite() && *speed > 0.0)?,
        },
        ("exit", status) => Ending::Seen(End::Exited(status.parse().ok()?)),
        ("signal", signal) => Ending::Seen(End::Signalled(signal.parse().ok()?)),
        ("sleep", ms) => Ending::Sleep(Duration::from_millis(ms.parse().ok()?)),
        ("fits", batch) => Ending::Fits(batch.parse().ok()?),
        ("stubborn", ms) => Ending::Stubborn(Duration::from_millis(ms.parse().ok()?)),
        ("oom", "") => Ending::Told(FailureReason::OutOfMemory),
        ("nan", "") => Ending::Told(FailureReason::LossNotFinite),
        ("libtorch", "") => Ending::Told(FailureReason::Libtorch),
        ("host-oom", "") => {
            let message = "the container's memory limit of 4 GiB";
            Ending::Seen(End::ended(Reason::HostOutOfMemory, message))
        }
        ("time-limit", "") => Ending::Seen(End::time_limit(Limits::default().time)),
        ("hang", "") => Ending::Seen(End::hang(Duration::ZERO)),
        ("gpu-lost", "") => Ending::Seen(End::ended(Reason::GpuLost, "the GPU fell off the bus")),
        ("engine", "") => Ending::Seen(End::ended(Reason::Engine, "the engine is gone")),
        ("image", "") => {
            let end = End::never(Reason::ImageBroken, Stage::Create, "no such image");
            Ending::Seen(end)
        }
        ("garbage", "") => Ending::Garbage,
        ("torn", "") => Ending::Torn,
        ("invalid", "") => Ending::Invalid,
        ("cancel", "") => Ending::Cancel,
        _ => return None,
    };
    Some((pattern.trim().to_owned(), ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read() {
        let script = Script::read("checkpointing=blocks=oom; b1=exit:3\n*=ok:1.05").unwrap();
        assert_eq!(script.rules.len(), 3);
        assert_eq!(script.rules[0].0, "checkpointing=blocks");
        assert_eq!(script.rules[2].1, Ending::Ok { speed: 1.05 });
        let refusals = ["x", "x=", "x=exit", "x=ok:-1", "x=oom:1", "x=fire"]
            .map(|bad| Script::read(bad).unwrap_err().to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        `x` is no rule; expected hosts=N,gpus=N, or PATTERN=ENDING with an ending of ok, ok:X, oom, nan, libtorch, exit:N, signal:N, host-oom, time-limit, hang, gpu-lost, garbage, torn, invalid, engine, image, cancel, sleep:MS, stubborn:MS
        `x=` is no rule; expected hosts=N,gpus=N, or PATTERN=ENDING with an ending of ok, ok:X, oom, nan, libtorch, exit:N, signal:N, host-oom, time-limit, hang, gpu-lost, garbage, torn, invalid, engine, image, cancel, sleep:MS, stubborn:MS
        `x=exit` is no rule; expected hosts=N,gpus=N, or PATTERN=ENDING with an ending of ok, ok:X, oom, nan, libtorch, exit:N, signal:N, host-oom, time-limit, hang, gpu-lost, garbage, torn, invalid, engine, image, cancel, sleep:MS, stubborn:MS
        `x=ok:-1` is no rule; expected hosts=N,gpus=N, or PATTERN=ENDING with an ending of ok, ok:X, oom, nan, libtorch, exit:N, signal:N, host-oom, time-limit, hang, gpu-lost, garbage, torn, invalid, engine, image, cancel, sleep:MS, stubborn:MS
        `x=oom:1` is no rule; expected hosts=N,gpus=N, or PATTERN=ENDING with an ending of ok, ok:X, oom, nan, libtorch, exit:N, signal:N, host-oom, time-limit, hang, gpu-lost, garbage, torn, invalid, engine, image, cancel, sleep:MS, stubborn:MS
        `x=fire` is no rule; expected hosts=N,gpus=N, or PATTERN=ENDING with an ending of ok, ok:X, oom, nan, libtorch, exit:N, signal:N, host-oom, time-limit, hang, gpu-lost, garbage, torn, invalid, engine, image, cancel, sleep:MS, stubborn:MS
        ");
    }
}
