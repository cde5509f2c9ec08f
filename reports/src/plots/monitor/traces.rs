//! What is drawn of a run: small panels with one trace or a few of the same quantity.

use record::{Record, Sampled, Series};

use crate::{
    svg::{Dashes, ink::Ink},
    words::format::Quantity,
};

pub(super) struct Trace {
    panel: &'static str,
    quantity: Quantity,
    /// What tells it from the others of its panel; empty where it is alone.
    pub(super) name: &'static str,
    pub(super) ink: Ink,
    pub(super) dashes: Dashes,
    series: Sampled,
}

/// Every trace, those of a panel together; what no run of a scenario has is left out. A new quantity
/// is an entry here.
static TRACES: [Trace; 13] = {
    use Dashes::{Dots, Long, None};
    use Quantity::{Bytes, Celsius, Cores, Megahertz, Percent, Plain, Watts};
    use Sampled::{
        CpuCores, GpuMemoryClockMhz, GpuPowerWatts, GpuProcessBytes, GpuSmClockMhz,
        GpuTemperatureCelsius, GpuUsedBytes, GpuUtilizationPercent, HostAvailableBytes,
        HostBusyCores, MemoryBytes, OtherCores, Pids,
    };
    [
        trace(
            "GPU utilization",
            Percent,
            "",
            0,
            None,
            GpuUtilizationPercent,
        ),
        trace("GPU memory", Bytes, "all", 1, Long, GpuUsedBytes),
        trace("GPU memory", Bytes, "run", 0, None, GpuProcessBytes),
        trace("GPU power", Watts, "", 0, None, GpuPowerWatts),
        trace("Clocks", Megahertz, "memory", 1, Long, GpuMemoryClockMhz),
        trace("Clocks", Megahertz, "SM", 0, None, GpuSmClockMhz),
        trace(
            "GPU temperature",
            Celsius,
            "",
            0,
            None,
            GpuTemperatureCelsius,
        ),
        trace("CPUs", Cores, "all", 2, Long, HostBusyCores),
        trace("CPUs", Cores, "others", 1, Dots, OtherCores),
        trace("CPUs", Cores, "run", 0, None, CpuCores),
        trace("Memory of the run", Bytes, "", 0, None, MemoryBytes),
        trace("Memory available", Bytes, "", 0, None, HostAvailableBytes),
        trace("Threads, processes", Plain, "", 0, None, Pids),
    ]
};

const fn trace(
    panel: &'static str,
    quantity: Quantity,
    name: &'static str,
    ink: u8,
    dashes: Dashes,
    series: Sampled,
) -> Trace {
    Trace {
        panel,
        quantity,
        name,
        ink: Ink::Series(ink),
        dashes,
        series,
    }
}

/// Traces on one scale.
#[derive(Clone, Copy)]
pub(super) struct Panel(&'static [Trace]);

pub(super) fn panels() -> impl Iterator<Item = Panel> {
    let panels = TRACES.chunk_by(|one, next| one.panel == next.panel);
    panels.map(Panel)
}

impl Panel {
    pub(super) fn title(self) -> &'static str {
        self.0[0].panel
    }

    pub(super) fn quantity(self) -> Quantity {
        self.0[0].quantity
    }

    pub(super) fn of(self, run: &Record) -> impl Iterator<Item = (&'static Trace, &Series)> {
        let traces = self.0.iter();
        traces.filter_map(|trace| Some((trace, run.monitor.get(trace.series)?)))
    }

    pub(super) fn is_known(self, run: &Record) -> bool {
        self.of(run).next().is_some()
    }
}
