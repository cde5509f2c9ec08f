//! What is drawn of a run: small panels with one trace or a few of the same quantity.

use record::{Monitor, Series};

use crate::{format::Quantity, svg::ink::Ink};

/// One trace.
pub(super) struct Trace {
    /// What tells it from the others of its panel; empty where it is alone.
    pub(super) name: &'static str,
    pub(super) ink: Ink,
    pub(super) read: fn(&Monitor) -> Option<&Series>,
}

/// Traces that share a scale.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) quantity: Quantity,
    /// The scale ends here at least.
    pub(super) at_least: f64,
    pub(super) traces: &'static [Trace],
}

const fn only(read: fn(&Monitor) -> Option<&Series>) -> [Trace; 1] {
    [trace("", 0, read)]
}

const fn trace(
    name: &'static str,
    series: u8,
    read: fn(&Monitor) -> Option<&Series>,
) -> Trace {
    Trace {
        name,
        ink: Ink::Series(series),
        read,
    }
}

/// Every panel, in order; those that no run of a scenario has are left out. A new quantity is an
/// entry here.
pub(super) const PANELS: [Panel; 9] = [
    Panel {
        title: "GPU utilisation",
        quantity: Quantity::Percent,
        at_least: 100.0,
        traces: &only(|monitor| monitor.gpu_utilization_percent.as_ref()),
    },
    Panel {
        title: "GPU memory",
        quantity: Quantity::Bytes,
        at_least: 0.0,
        traces: &[
            trace("all", 1, |monitor| monitor.gpu_used_bytes.as_ref()),
            trace("run", 0, |monitor| monitor.gpu_process_bytes.as_ref()),
        ],
    },
    Panel {
        title: "GPU power",
        quantity: Quantity::Watts,
        at_least: 0.0,
        traces: &only(|monitor| monitor.gpu_power_watts.as_ref()),
    },
    Panel {
        title: "GPU clocks",
        quantity: Quantity::Megahertz,
        at_least: 0.0,
        traces: &[
            trace("memory", 1, |monitor| monitor.gpu_memory_clock_mhz.as_ref()),
            trace("SM", 0, |monitor| monitor.gpu_sm_clock_mhz.as_ref()),
        ],
    },
    Panel {
        title: "GPU temperature",
        quantity: Quantity::Celsius,
        at_least: 0.0,
        traces: &only(|monitor| monitor.gpu_temperature_celsius.as_ref()),
    },
    Panel {
        title: "CPUs",
        quantity: Quantity::Cores,
        at_least: 1.0,
        traces: &[
            trace("all", 2, |monitor| monitor.host_busy_cores.as_ref()),
            trace("others", 1, |monitor| monitor.other_cores.as_ref()),
            trace("run", 0, |monitor| monitor.cpu_cores.as_ref()),
        ],
    },
    Panel {
        title: "Memory of the run",
        quantity: Quantity::Bytes,
        at_least: 0.0,
        traces: &only(|monitor| monitor.memory_bytes.as_ref()),
    },
    Panel {
        title: "Host memory to be had",
        quantity: Quantity::Bytes,
        at_least: 0.0,
        traces: &only(|monitor| monitor.host_available_bytes.as_ref()),
    },
    Panel {
        title: "Threads, processes",
        quantity: Quantity::Plain,
        at_least: 1.0,
        traces: &only(|monitor| monitor.pids.as_ref()),
    },
];

impl Panel {
    /// The traces that this run has.
    pub(super) fn of<'a>(
        &'static self,
        monitor: &'a Monitor,
    ) -> impl Iterator<Item = (&'static Trace, &'a Series)> {
        let traces = self.traces.iter();
        traces.filter_map(move |trace| Some((trace, (trace.read)(monitor)?)))
    }

    pub(super) fn is_known(&'static self, monitor: &Monitor) -> bool {
        self.of(monitor).next().is_some()
    }
}
