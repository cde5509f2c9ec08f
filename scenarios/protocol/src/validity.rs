//! Which combinations mean something.

use crate::{
    Checkpointing, Device, Execution, InputKind, KernelCache, LengthRange, MemoryFormat, Model,
    Positive, Precision, Task, Variant,
};

/// A combination of model, task, device and axes that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{axis}: {reason}")]
pub struct Refusal {
    /// The axis to change.
    pub axis: &'static str,
    /// Why, and what would be accepted.
    pub reason: String,
}

/// Refuses what cannot run or would silently run as something else.
pub fn check(model: Model, task: Task, variant: &Variant, device: Device) -> Result<(), Refusal> {
    check_work(model, task, variant)?;
    check_device(variant, device)?;
    check_input(model, variant)?;
    check_loader(task, variant)?;
    check_task(model, task, variant)
}

fn refuse(axis: &'static str, reason: String) -> Result<(), Refusal> {
    Err(Refusal { axis, reason })
}

/// A model is there exactly where something is computed, and so are choices on the axes.
fn check_work(model: Model, task: Task, variant: &Variant) -> Result<(), Refusal> {
    match (model, task) {
        (Model::None, Task::Idle) => {}
        (Model::None, _) => {
            return refuse(
                "model",
                format!("{task} computes a model; name one, or use the task idle"),
            );
        }
        (_, Task::Idle) => {
            return refuse("model", "idle computes nothing; use the model none".into());
        }
        _ => return Ok(()),
    }
    let (asked, usual) = (variant.axes(), Variant::default().axes());
    match Variant::AXES
        .into_iter()
        .find(|axis| asked.get(*axis) != usual.get(*axis))
    {
        None => Ok(()),
        Some(axis) => refuse(axis, "idle computes nothing; drop it".into()),
    }
}

fn check_device(variant: &Variant, device: Device) -> Result<(), Refusal> {
    if device == Device::Cpu {
        match variant.precision {
            Precision::Tf32 => {
                return refuse(
                    "precision",
                    "tf32 needs a CUDA GPU; on cpu use fp32 or amp-bf16".into(),
                );
            }
            Precision::AmpFp16 => {
                return refuse(
                    "precision",
                    "amp-fp16 with loss scaling needs a CUDA GPU; on cpu use fp32 or amp-bf16"
                        .into(),
                );
            }
            Precision::Fp32 | Precision::AmpBf16 => {}
        }
        if !variant.allocator.is_default() {
            return refuse(
                "allocator",
                format!(
                    "`{}` configures the CUDA allocator and does nothing on cpu; use native",
                    variant.allocator
                ),
            );
        }
        if variant.execution == Execution::CudaGraph {
            return refuse(
                "execution",
                "cuda-graph needs a CUDA GPU; on cpu use eager".into(),
            );
        }
        if variant.kernel_cache == KernelCache::Session {
            return refuse(
                "kernel_cache",
                "session shares what the CUDA driver compiles, and cpu has none; use run".into(),
            );
        }
    }
    if variant.execution == Execution::CudaGraph && variant.checkpointing != Checkpointing::None {
        return refuse(
            "execution",
            format!(
                "cuda-graph cannot capture checkpointing `{}`, which reads and sets the random \
                 state within the step; use eager, or checkpointing none",
                variant.checkpointing
            ),
        );
    }
    if let (Execution::CudaGraph, Some(lengths)) = (variant.execution, variant.sequence_lengths) {
        return refuse(
            "execution",
            format!(
                "cuda-graph replays sequences of one length, and sequence_lengths is {lengths}; \
                 use eager, or one sequence_length"
            ),
        );
    }
    Ok(())
}

fn check_input(model: Model, variant: &Variant) -> Result<(), Refusal> {
    match model.input() {
        InputKind::Images {
            size,
            multiple_of,
            resizable,
        } => {
            if variant.sequence_length.is_some() {
                return refuse("sequence_length", format!("{model} reads images; drop it"));
            }
            if variant.sequence_lengths.is_some() {
                return refuse("sequence_lengths", format!("{model} reads images; drop it"));
            }
            if let Some(asked) = variant.image_size {
                if !resizable && asked.get() != size {
                    return refuse(
                        "image_size",
                        format!("{model} reads images of {size} × {size} only, got {asked}"),
                    );
                }
                if asked.get() % multiple_of != 0 {
                    return refuse(
                        "image_size",
                        format!("{model} takes multiples of {multiple_of}, got {asked}"),
                    );
                }
            }
        }
        InputKind::Nothing => {}
        InputKind::Tokens { longest, .. } => {
            if variant.image_size.is_some() {
                return refuse("image_size", format!("{model} reads tokens; drop it"));
            }
            if variant.memory_format == MemoryFormat::ChannelsLast {
                return refuse(
                    "memory_format",
                    format!("{model} reads tokens, which have no channels; use contiguous"),
                );
            }
            if let Some(asked) = variant.sequence_length
                && asked.get() > longest
            {
                return refuse(
                    "sequence_length",
                    format!("{model} holds at most {longest} positions, got {asked}"),
                );
            }
            if let Some(asked) = variant.sequence_lengths {
                return check_lengths(model, variant, asked, longest);
            }
        }
    }
    Ok(())
}

fn check_loader(task: Task, variant: &Variant) -> Result<(), Refusal> {
    // More processes than any machine has CPUs for.
    const MOST: u32 = 256;
    // Requests and answers for all of them fit into a pipe, so that nobody waits for nobody.
    const MOST_AHEAD: u32 = 64;
    let Some(workers) = variant.loader_workers else {
        return match variant.prefetch_factor {
            None => Ok(()),
            Some(_) => refuse(
                "prefetch_factor",
                "without loader_workers nobody makes batches ahead; give both, or drop it".into(),
            ),
        };
    };
    if task != Task::Training {
        return refuse(
            "loader_workers",
            format!(
                "a data loader feeds training, and {task} takes one batch again and again; drop it"
            ),
        );
    }
    if workers.get() > MOST {
        return refuse(
            "loader_workers",
            format!("at most {MOST} processes, got {workers}"),
        );
    }
    if let Some(factor) = variant.prefetch_factor
        && factor.get() > MOST_AHEAD
    {
        return refuse(
            "prefetch_factor",
            format!("at most {MOST_AHEAD} micro-batches for each worker, got {factor}"),
        );
    }
    if variant.execution == Execution::CudaGraph {
        return refuse(
            "execution",
            "cuda-graph replays a step with the same inputs at the same addresses, and \
             loader_workers brings new ones; use eager, or drop loader_workers"
                .into(),
        );
    }
    Ok(())
}

fn check_lengths(
    model: Model,
    variant: &Variant,
    asked: LengthRange,
    longest: u32,
) -> Result<(), Refusal> {
    if let Some(one) = variant.sequence_length {
        return refuse(
            "sequence_lengths",
            format!(
                "{asked} draws a length for each step, and sequence_length {one} is the same for \
                 all; drop one of the two"
            ),
        );
    }
    if asked.longest() > longest {
        return refuse(
            "sequence_lengths",
            format!("{model} holds at most {longest} positions, got {asked}"),
        );
    }
    Ok(())
}

fn check_task(model: Model, task: Task, variant: &Variant) -> Result<(), Refusal> {
    if let Checkpointing::Every(k) = variant.checkpointing
        && k > model.blocks()
    {
        return refuse(
            "checkpointing",
            format!(
                "{model} has {} blocks; every-{k} is more than that",
                model.blocks()
            ),
        );
    }
    check_normalisation(model, task, variant)?;
    if task == Task::Inference {
        if variant.checkpointing != Checkpointing::None {
            return refuse(
                "checkpointing",
                "inference keeps no activations; use none".into(),
            );
        }
        if variant.accumulation.get() != 1 {
            return refuse(
                "accumulation",
                "inference accumulates no gradients; use 1".into(),
            );
        }
        if variant.optimizer != crate::Optimizer::default() {
            return refuse(
                "optimizer",
                "inference takes no optimizer step; drop it".into(),
            );
        }
    }
    Ok(())
}

/// As `torch.nn.functional.batch_norm`: «Expected more than 1 value per channel when training».
/// The last stage of a `ResNet` is 32 times smaller than the image.
fn check_normalisation(model: Model, task: Task, variant: &Variant) -> Result<(), Refusal> {
    let (Model::Resnet50 | Model::ResnetTiny, InputKind::Images { size, .. }) =
        (model, model.input())
    else {
        return Ok(());
    };
    let size = variant.image_size.map_or(size, Positive::get);
    if task == Task::Training && variant.batch == Positive::ONE && size <= 32 {
        return refuse(
            "batch",
            format!(
                "{model} cannot train on one image of {size} × {size}, because batch \
                 normalisation needs more than one value for each channel; use a batch of at \
                 least 2 or images of at least 64 × 64"
            ),
        );
    }
    Ok(())
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
        let train = Task::Training;
        for (model, task, device, variant, axis) in [
            (
                Model::Resnet50,
                train,
                cpu,
                r#"{"precision":"tf32"}"#,
                "precision",
            ),
            (
                Model::Resnet50,
                train,
                cpu,
                r#"{"precision":"amp-fp16"}"#,
                "precision",
            ),
            (
                Model::Resnet50,
                train,
                cpu,
                r#"{"allocator":"expandable_segments"}"#,
                "allocator",
            ),
            (
                Model::Resnet50,
                train,
                gpu,
                r#"{"sequence_length":128}"#,
                "sequence_length",
            ),
            (
                Model::Resnet50,
                train,
                gpu,
                r#"{"image_size":100}"#,
                "image_size",
            ),
            (
                Model::VitB16,
                train,
                gpu,
                r#"{"image_size":384}"#,
                "image_size",
            ),
            (
                Model::BertBase,
                train,
                gpu,
                r#"{"image_size":224}"#,
                "image_size",
            ),
            (
                Model::BertBase,
                train,
                gpu,
                r#"{"sequence_length":513}"#,
                "sequence_length",
            ),
            (
                Model::BertBase,
                train,
                gpu,
                r#"{"memory_format":"channels-last"}"#,
                "memory_format",
            ),
            (
                Model::BertBase,
                train,
                gpu,
                r#"{"checkpointing":"every-13"}"#,
                "checkpointing",
            ),
            (
                Model::VitL16,
                Task::Inference,
                gpu,
                r#"{"checkpointing":"blocks"}"#,
                "checkpointing",
            ),
            (
                Model::VitL16,
                Task::Inference,
                gpu,
                r#"{"accumulation":2}"#,
                "accumulation",
            ),
            (
                Model::VitL16,
                Task::Inference,
                gpu,
                r#"{"optimizer":"adamw"}"#,
                "optimizer",
            ),
        ] {
            check_refused(model, task, device, variant, axis);
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
        let many = r#"{"loader_workers":257}"#;
        check_refused(model, Task::Training, cpu, many, "loader_workers");
        let alone = r#"{"prefetch_factor":2}"#;
        check_refused(model, Task::Training, cpu, alone, "prefetch_factor");
        let graph = r#"{"loader_workers":2,"execution":"cuda-graph"}"#;
        check_refused(model, Task::Training, gpu, graph, "execution");
        let far = r#"{"loader_workers":2,"prefetch_factor":65}"#;
        check_refused(model, Task::Training, cpu, far, "prefetch_factor");
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
