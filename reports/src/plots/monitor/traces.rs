//! What is drawn of a run: small panels with one trace or a few of the same quantity.

use record::{Record, Sampled, Series};

use crate::{
    svg::{Dashes, ink::Ink},
    words::format::Quantity,
};

pub(super) struct Trace {
    /// What tells it from the others of its panel; empty where it is alone.
    pub(super) name: &'static str,
    pub(super) ink: Ink,
    pub(super) dashes: Dashes,
    series: Sampled,
}

pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) quantity: Quantity,
    /// The scale ends here at least.
    pub(super) at_least: f64,
    traces: &'static [Trace],
}

/// Every panel, in order; those that no run of a scenario has are left out. A new quantity is an
/// entry here.
pub(super) const PANELS: [Panel; 9] = {
    use Quantity::{Bytes, Celsius, Cores, Megahertz, Percent, Plain, Watts};
    use Sampled::{
        CpuCores, GpuMemoryClockMhz, GpuPowerWatts, GpuProcessBytes, GpuSmClockMhz,
        GpuTemperatureCelsius, GpuUsedBytes, GpuUtilizationPercent, HostAvailableBytes,
        HostBusyCores, MemoryBytes, OtherCores, Pids,
    };
    const UTILIZATION: [Trace; 1] = [only(GpuUtilizationPercent)];
    const TEMPERATURE: [Trace; 1] = [only(GpuTemperatureCelsius)];
    [
        panel("GPU utilization", Percent, 100.0, &UTILIZATION),
        panel(
            "GPU memory",
            Bytes,
            0.0,
            &[
                trace("all", 1, Dashes::Long, GpuUsedBytes),
                trace("run", 0, Dashes::None, GpuProcessBytes),
            ],
        ),
        panel("GPU power", Watts, 0.0, &[only(GpuPowerWatts)]),
        panel(
            "Clocks",
            Megahertz,
            0.0,
            &[
                trace("memory", 1, Dashes::Long, GpuMemoryClockMhz),
                trace("SM", 0, Dashes::None, GpuSmClockMhz),
            ],
        ),
        panel("GPU temperature", Celsius, 0.0, &TEMPERATURE),
        panel(
            "CPUs",
            Cores,
            1.0,
            &[
                trace("all", 2, Dashes::Long, HostBusyCores),
                trace("others", 1, Dashes::Dots, OtherCores),
                trace("run", 0, Dashes::None, CpuCores),
            ],
        ),
        panel("Memory of the run", Bytes, 0.0, &[only(MemoryBytes)]),
        panel("Memory available", Bytes, 0.0, &[only(HostAvailableBytes)]),
        panel("Threads, processes", Plain, 1.0, &[only(Pids)]),
    ]
};

const fn only(series: Sampled) -> Trace {
    trace("", 0, Dashes::None, series)
}

const fn trace(name: &'static str, ink: u8, dashes: Dashes, series: Sampled) -> Trace {
    Trace {
        name,
        ink: Ink::Series(ink),
        dashes,
        series,
    }
}

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
    pub(super) fn of<'a>(
        &'static self,
        run: &'a Record,
    ) -> impl Iterator<Item = (&'static Trace, &'a Series)> {
        let traces = self.traces.iter();
        traces.filter_map(|trace| Some((trace, run.monitor.get(trace.series)?)))
    }

    pub(super) fn is_known(&'static self, run: &Record) -> bool {
        self.of(run).next().is_some()
    }
}
