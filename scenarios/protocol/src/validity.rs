//! Which combinations mean something.

use crate::{Axis, Device, InputKind, Model, Task, Variant, axis::Need};

/// A combination of model, task, device and axes that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{axis}: {reason}")]
pub struct Refusal {
    /// The axis to change.
    pub axis: &'static str,
    /// Why, and what would be accepted.
    pub reason: String,
}

/// What a run is asked for, as far as one choice can make another one meaningless.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combination<'a> {
    /// The model.
    pub model: Model,
    /// The task.
    pub task: Task,
    /// The choice on every axis.
    pub variant: &'a Variant,
    /// Where it runs.
    pub device: Device,
}

/// Refuses what cannot run or would silently run as something else.
pub fn check(model: Model, task: Task, variant: &Variant, device: Device) -> Result<(), Refusal> {
    let asked = Combination {
        model,
        task,
        variant,
        device,
    };
    asked.check_work().map_err(|reason| Refusal {
        axis: "model",
        reason,
    })?;
    for axis in Axis::ALL {
        asked
            .check_needs(axis)
            .and_then(|()| (axis.rule)(&asked))
            .map_err(|reason| Refusal {
                axis: axis.name,
                reason,
            })?;
    }
    Ok(())
}

impl Combination<'_> {
    /// The value on an axis as text; empty where there is none.
    pub(crate) fn value(&self, axis: &str) -> String {
        self.variant.axes().remove(axis).unwrap_or_default()
    }

    /// Whether the value on an axis is another one than the default.
    pub(crate) fn is_chosen(&self, axis: &str) -> bool {
        self.variant.axes().get(axis) != Variant::default().axes().get(axis)
    }

    /// A model is there exactly where something is computed.
    fn check_work(&self) -> Result<(), String> {
        match (self.model, self.task) {
            (Model::None, Task::Idle) => Ok(()),
            (Model::None, task) => Err(format!(
                "{task} computes a model; name one, or use the task idle"
            )),
            (_, Task::Idle) => Err("idle computes nothing; use the model none".into()),
            _ => Ok(()),
        }
    }

    fn check_needs(&self, axis: &Axis) -> Result<(), String> {
        if !self.is_chosen(axis.name) {
            return Ok(());
        }
        if self.task == Task::Idle {
            return Err("idle computes nothing; drop it".into());
        }
        let model = self.model;
        let input = model.input();
        let missing = axis.needs.iter().find_map(|need| match need {
            Need::Cuda if !self.device.is_cuda() => Some("a CUDA GPU".to_owned()),
            Need::Training if self.task != Task::Training => Some("the task training".to_owned()),
            Need::Images if !matches!(input, InputKind::Images { .. }) => {
                Some(format!("images, and {model} reads tokens"))
            }
            Need::Tokens if !matches!(input, InputKind::Tokens { .. }) => {
                Some(format!("tokens, and {model} reads images"))
            }
            _ => None,
        });
        let Some(missing) = missing else {
            return Ok(());
        };
        let instead = match Variant::default().axes().remove(axis.name) {
            Some(usual) => format!("use {usual}"),
            None => "drop it".to_owned(),
        };
        let value = self.value(axis.name);
        Err(format!("{}={value} needs {missing}; {instead}", axis.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(model: Model, task: Task, device: Device, variant: &str, axis: &str) {
        let variant: Variant = serde_json::from_str(variant).unwrap();
        let refusal = check(model, task, &variant, device).unwrap_err();
        assert_eq!(refusal.axis, axis, "{refusal}");
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        let (cpu, gpu) = (Device::Cpu, Device::Cuda(0));
        let (train, serve) = (Task::Training, Task::Inference);
        for (model, task, device, axis, value) in [
            (Model::Resnet50, train, cpu, "precision", r#""tf32""#),
            (Model::Resnet50, train, cpu, "precision", r#""amp-fp16""#),
            (
                Model::Resnet50,
                train,
                cpu,
                "allocator",
                r#""expandable_segments""#,
            ),
            (Model::Resnet50, train, gpu, "sequence_length", "128"),
            (Model::Resnet50, train, gpu, "image_size", "100"),
            (Model::VitB16, train, gpu, "image_size", "384"),
            (Model::BertBase, train, gpu, "image_size", "224"),
            (Model::BertBase, train, gpu, "sequence_length", "513"),
            (
                Model::BertBase,
                train,
                gpu,
                "memory_format",
                r#""channels-last""#,
            ),
            (
                Model::BertBase,
                train,
                gpu,
                "checkpointing",
                r#""every-13""#,
            ),
            (Model::VitL16, serve, gpu, "checkpointing", r#""blocks""#),
            (Model::VitL16, serve, gpu, "accumulation", "2"),
            (Model::VitL16, serve, gpu, "optimizer", r#""adamw""#),
        ] {
            let variant = format!(r#"{{"{axis}":{value}}}"#);
            check_refused(model, task, device, &variant, axis);
        }
    }

    #[test]
    fn what_the_step_cannot_do_is_refused_by_name() {
        let (cpu, gpu, train) = (Device::Cpu, Device::Cuda(0), Task::Training);
        let check = |model, device, variant, axis| {
            check_refused(model, train, device, variant, axis);
        };
        check(Model::ResnetTiny, cpu, r#"{"batch":1}"#, "batch");
        let shared = r#"{"kernel_cache":"session"}"#;
        check(Model::BertBase, cpu, shared, "kernel_cache");
        let graph = r#"{"execution":"cuda-graph"}"#;
        check(Model::BertBase, cpu, graph, "execution");
        let both = r#"{"execution":"cuda-graph","checkpointing":"blocks"}"#;
        check(Model::BertBase, gpu, both, "execution");
    }

    #[test]
    fn idling_has_neither_model_nor_choices() {
        let cpu = Device::Cpu;
        let plain = Variant::default();
        for device in [cpu, Device::Cuda(0)] {
            assert_eq!(
                super::check(Model::None, Task::Idle, &plain, device),
                Ok(())
            );
        }
        check_refused(Model::VitTiny, Task::Idle, cpu, "{}", "model");
        check_refused(Model::None, Task::Training, cpu, "{}", "model");
        check_refused(Model::None, Task::Inference, cpu, "{}", "model");
        check_refused(Model::None, Task::Idle, cpu, r#"{"batch":2}"#, "batch");
        let length = r#"{"sequence_length":8}"#;
        check_refused(Model::None, Task::Idle, cpu, length, "sequence_length");
    }

    #[test]
    fn a_loader_that_cannot_feed_is_refused_by_name() {
        let (cpu, gpu) = (Device::Cpu, Device::Cuda(0));
        let model = Model::VitTiny;
        let loader = r#"{"loader_workers":2}"#;
        check_refused(model, Task::Inference, cpu, loader, "loader_workers");
        let alone = r#"{"prefetch_factor":2}"#;
        check_refused(model, Task::Training, cpu, alone, "prefetch_factor");
        let graph = r#"{"loader_workers":2,"execution":"cuda-graph"}"#;
        check_refused(model, Task::Training, gpu, graph, "execution");
        let variant = r#"{"loader_workers":256,"prefetch_factor":64}"#;
        let variant: Variant = serde_json::from_str(variant).unwrap();
        assert_eq!(super::check(model, Task::Training, &variant, cpu), Ok(()));
    }

    #[test]
    fn lengths_that_cannot_vary_are_refused_by_name() {
        let (cpu, gpu, train) = (Device::Cpu, Device::Cuda(0), Task::Training);
        let check = |model, device, variant, axis| {
            check_refused(model, train, device, variant, axis);
        };
        let vary = r#"{"batch":2,"sequence_lengths":"16-512"}"#;
        check(Model::ResnetTiny, cpu, vary, "sequence_lengths");
        check(Model::BertTiny, cpu, vary, "sequence_lengths");
        let both = r#"{"sequence_lengths":"16-512","sequence_length":128}"#;
        check(Model::BertBase, cpu, both, "sequence_lengths");
        let graph = r#"{"sequence_lengths":"16-512","execution":"cuda-graph"}"#;
        check(Model::BertBase, gpu, graph, "execution");
        let variant: Variant = serde_json::from_str(vary).unwrap();
        for task in [Task::Training, Task::Inference] {
            assert_eq!(super::check(Model::BertBase, task, &variant, gpu), Ok(()));
        }
    }

    #[test]
    fn every_axis_is_open_on_a_gpu() {
        let variant: Variant = serde_json::from_str(
            r#"{"precision":"amp-fp16","checkpointing":"every-2","accumulation":4,"batch":8,
                "allocator":"max_split_size_mb:64","memory_format":"channels-last",
                "optimizer":"adamw","image_size":256,"kernel_cache":"session"}"#,
        )
        .unwrap();
        assert_eq!(
            check(Model::Resnet50, Task::Training, &variant, Device::Cuda(0)),
            Ok(())
        );
    }
}
