//! Where the memory of a training run went, out of metrics that were measured.

use protocol::{MemoryPoint, Moment};
use serde::{Deserialize, Serialize};

use crate::Metrics;

/// The parts of a training run's memory, in bytes. `None` is «cannot be known here».
///
/// `parameter + optimizer + data + activation + backward` is the peak that the tensors took;
/// `slack` on top of it is the peak of what the allocator held, `outside` on top of that the peak of
/// what the process held of the GPU, all of the measured steps. At rest, between steps, `parameter + gradient + optimizer + data` is
/// what the tensors take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryParts {
    /// Parameters.
    pub parameter_bytes: Option<u64>,
    /// Gradients at rest. At the peak few of them are there yet, so they are no part of that sum.
    pub gradient_bytes: Option<u64>,
    /// Optimizer state.
    pub optimizer_bytes: Option<u64>,
    /// Buffers, data, and whatever else a step finds.
    pub data_bytes: Option<u64>,
    /// What the first forward of a step keeps for its backward.
    pub activation_bytes: Option<u64>,
    /// Gradients and temporaries at the peak, beyond what forward left.
    pub backward_bytes: Option<u64>,
    /// What the caching allocator held beyond the peak of the tensors; on a GPU only.
    pub slack_bytes: Option<u64>,
    /// What the process held of the GPU beyond what its allocator did: the CUDA context, libraries,
    /// their workspaces.
    pub outside_bytes: Option<u64>,
}

impl MemoryParts {
    /// Of a run; `None` where no training step was looked into.
    #[must_use]
    pub fn of(metrics: &Metrics) -> Option<Self> {
        let points = &metrics.memory_points;
        // The last step that was looked into: in the first, cuDNN tries algorithms.
        let forward = last(points, Moment::Forward)?;
        let data = last(points, Moment::Data)?.allocated_bytes;
        let memory = &metrics.summary.memory;
        let parameter = memory.parameter_bytes;
        let optimizer = memory.optimizer_bytes;
        let peak = memory.peak_allocated_bytes;
        // The first step makes the optimizer's state. In older records it came with the model.
        let with_model = last(points, Moment::Model)
            .is_some_and(|model| model.allocated_bytes >= sum(parameter, optimizer));
        let state_if = |there: bool| if there { optimizer } else { Some(0) };
        let data_bytes = less(data, sum(parameter, state_if(with_model)));
        let state_in_forward = state_if(with_model || forward.step > Some(0));
        let before_forward = sum(sum(parameter, state_in_forward), data_bytes);
        let after_forward = sum(forward.allocated_bytes, less(optimizer, state_in_forward));
        Some(Self {
            parameter_bytes: parameter,
            gradient_bytes: memory.gradient_bytes,
            optimizer_bytes: optimizer,
            data_bytes,
            activation_bytes: less(forward.allocated_bytes, before_forward),
            backward_bytes: less(peak, after_forward),
            slack_bytes: less(memory.peak_reserved_bytes, peak),
            outside_bytes: less(metrics.peaks.process_peak_bytes, memory.peak_reserved_bytes),
        })
    }

    /// The sum of the parts at the peak: what the run took of the GPU. `None` where a part is
    /// not known.
    #[must_use]
    pub fn gpu_bytes(&self) -> Option<u64> {
        [
            self.parameter_bytes,
            self.optimizer_bytes,
            self.data_bytes,
            self.activation_bytes,
            self.backward_bytes,
            self.slack_bytes,
            self.outside_bytes,
        ]
        .into_iter()
        .reduce(sum)?
    }
}

fn last(points: &[MemoryPoint], moment: Moment) -> Option<&MemoryPoint> {
    points.iter().rev().find(|point| point.moment == moment)
}

/// A workload may say anything; what no memory has room for is not known.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one?.checked_add(other?)
}

fn less(from: Option<u64>, what: Option<u64>) -> Option<u64> {
    Some(from?.saturating_sub(what?))
}

#[cfg(test)]
mod tests {
    use protocol::{Memory, Summary};

    use super::*;
    use crate::Peaks;

    fn point(moment: Moment, step: Option<u32>, allocated: u64) -> MemoryPoint {
        MemoryPoint {
            moment,
            step,
            allocated_bytes: Some(allocated),
            peak_allocated_bytes: Some(allocated),
            reserved_bytes: None,
            device_used_bytes: None,
        }
    }

    fn metrics() -> Metrics {
        Metrics {
            summary: Summary {
                memory: Memory {
                    peak_allocated_bytes: Some(1000),
                    peak_reserved_bytes: Some(1200),
                    reserved_bytes: Some(1200),
                    parameter_bytes: Some(100),
                    gradient_bytes: Some(100),
                    optimizer_bytes: Some(200),
                    device_used_before_bytes: Some(50),
                    device_used_bytes: Some(1850),
                    ..Memory::default()
                },
                ..Summary::default()
            },
            memory_points: vec![
                point(Moment::Model, None, 300),
                point(Moment::Data, None, 350),
                point(Moment::Forward, Some(0), 950),
                point(Moment::Forward, Some(4), 900),
            ],
            peaks: Peaks {
                process_peak_bytes: Some(1800),
                ..Peaks::default()
            },
            ..Metrics::default()
        }
    }

    #[test]
    fn parts_add_up_to_what_the_process_had() {
        let parts = MemoryParts::of(&metrics()).unwrap();
        assert_eq!(parts.data_bytes, Some(50));
        assert_eq!(parts.activation_bytes, Some(550));
        assert_eq!(parts.backward_bytes, Some(100));
        assert_eq!(parts.slack_bytes, Some(200));
        assert_eq!(parts.outside_bytes, Some(600));
        assert_eq!(parts.gpu_bytes(), Some(1800));
    }

    #[test]
    fn state_that_the_first_step_makes_is_no_activation() {
        let mut metrics = metrics();
        metrics.memory_points[0] = point(Moment::Model, None, 100);
        metrics.memory_points[1] = point(Moment::Data, None, 150);
        let of_later_step = MemoryParts::of(&metrics).unwrap();
        assert_eq!(of_later_step.data_bytes, Some(50));
        assert_eq!(of_later_step.activation_bytes, Some(550));
        assert_eq!(of_later_step.backward_bytes, Some(100));
        assert_eq!(of_later_step.gpu_bytes(), Some(1800));

        metrics.memory_points.truncate(2);
        metrics
            .memory_points
            .push(point(Moment::Forward, Some(0), 700));
        let of_first_step = MemoryParts::of(&metrics).unwrap();
        assert_eq!(of_first_step, of_later_step);
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        let mut metrics = metrics();
        metrics.peaks.process_peak_bytes = None;
        let parts = MemoryParts::of(&metrics).unwrap();
        assert_eq!(parts.outside_bytes, None);
        assert_eq!(parts.gpu_bytes(), None);
        metrics.memory_points.truncate(2);
        assert_eq!(MemoryParts::of(&metrics), None);
    }
}
