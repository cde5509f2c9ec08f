//! What is drawn of a run: small panels with one trace or a few of the same quantity.

use record::{Monitor, Record, Series};

use crate::{
    format::Quantity,
    svg::{Dashes, ink::Ink},
};

/// One trace.
pub(super) struct Trace {
    /// What tells it from the others of its panel; empty where it is alone.
    pub(super) name: &'static str,
    pub(super) ink: Ink,
    pub(super) dashes: Dashes,
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
    [trace("", 0, Dashes::None, read)]
}

const fn trace(
    name: &'static str,
    series: u8,
    dashes: Dashes,
    read: fn(&Monitor) -> Option<&Series>,
) -> Trace {
    Trace {
        name,
        ink: Ink::Series(series),
        dashes,
        read,
    }
}

/// Every panel, in order; those that no run of a scenario has are left out. A new quantity is an
/// entry here.
pub(super) const PANELS: [Panel; 9] = [
    panel(
        "GPU utilisation",
        Quantity::Percent,
        100.0,
        &only(|monitor| monitor.gpu_utilization_percent.as_ref()),
    ),
    panel(
        "GPU memory",
        Quantity::Bytes,
        0.0,
        &[
            trace("all", 1, Dashes::Long, |monitor| {
                monitor.gpu_used_bytes.as_ref()
            }),
            trace("run", 0, Dashes::None, |monitor| {
                monitor.gpu_process_bytes.as_ref()
            }),
        ],
    ),
    panel(
        "GPU power",
        Quantity::Watts,
        0.0,
        &only(|monitor| monitor.gpu_power_watts.as_ref()),
    ),
    panel(
        "Clocks",
        Quantity::Megahertz,
        0.0,
        &[
            trace("memory", 1, Dashes::Long, |monitor| {
                monitor.gpu_memory_clock_mhz.as_ref()
            }),
            trace("SM", 0, Dashes::None, |monitor| {
                monitor.gpu_sm_clock_mhz.as_ref()
            }),
        ],
    ),
    panel(
        "GPU temperature",
        Quantity::Celsius,
        0.0,
        &only(|monitor| monitor.gpu_temperature_celsius.as_ref()),
    ),
    panel(
        "CPUs",
        Quantity::Cores,
        1.0,
        &[
            trace("all", 2, Dashes::Long, |monitor| {
                monitor.host_busy_cores.as_ref()
            }),
            trace("others", 1, Dashes::Dots, |monitor| {
                monitor.other_cores.as_ref()
            }),
            trace("run", 0, Dashes::None, |monitor| monitor.cpu_cores.as_ref()),
        ],
    ),
    panel(
        "Memory of the run",
        Quantity::Bytes,
        0.0,
        &only(|monitor| monitor.memory_bytes.as_ref()),
    ),
    panel(
        "Memory available",
        Quantity::Bytes,
        0.0,
        &only(|monitor| monitor.host_available_bytes.as_ref()),
    ),
    panel(
        "Threads, processes",
        Quantity::Plain,
        1.0,
        &only(|monitor| monitor.pids.as_ref()),
    ),
];

const fn panel(
    title: &'static str,
    quantity: Quantity,
    at_least: f64,
    traces: &'static [Trace],
) -> Panel {
    Panel {
        title,
        quantity,
        at_least,
        traces,
    }
}

impl Panel {
    /// The traces that this run has.
    pub(super) fn of<'a>(
        &'static self,
        run: &'a Record,
    ) -> impl Iterator<Item = (&'static Trace, &'a Series)> {
        let traces = self.traces.iter();
        traces.filter_map(|trace| Some((trace, (trace.read)(&run.monitor)?)))
    }

    pub(super) fn is_known(&'static self, run: &Record) -> bool {
        self.of(run).next().is_some()
    }
}
