//! Which combinations mean something.

use std::time::Duration;

use crate::{
    Arrivals, Axis, Device, Execution, InputKind, LengthRange, Model, Nccl, Steps, Task, Trace,
    Variant, arrivals::least_search, axis::Need, variant::refuse_if,
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

/// Why a trace means nothing for such a task, gives what an axis gives, too, or is missing.
pub fn check_traced(trace: Option<&Trace>, task: Task, variant: &Variant) -> Result<(), String> {
    let expects = task == Task::Serving && variant.arrivals == Some(Arrivals::Trace);
    let drawn = variant.allocation_mib.is_some() || variant.live_mib.is_some();
    match trace {
        None if expects => Err("arrivals: trace needs a trace of requests, trace: FILE".into()),
        Some(Trace::Tensors(_)) if task != Task::Allocation => {
            Err("a trace of tensors is for the task allocation".into())
        }
        Some(Trace::Tensors(_)) if drawn || variant.allocations.is_some() => Err(
            "a trace has what is allocated; drop allocations, allocation_mib and live_mib".into(),
        ),
        None | Some(Trace::Tensors(_)) => Ok(()),
        Some(Trace::Requests(_)) if !expects => {
            Err("a trace of requests is for the task serving with arrivals: trace".into())
        }
        Some(Trace::Requests(requests)) => {
            let prompts = requests.iter().filter_map(|one| one.prompt);
            within("sequence_lengths", prompts, variant.sequence_lengths)?;
            let answers = requests.iter().filter_map(|one| one.answer);
            within("answer_lengths", answers, variant.answer_lengths)
        }
    }
}

/// The axis says between which lengths a trace's lie, as it does of drawn ones.
fn within(
    axis: &str,
    mut lengths: impl Iterator<Item = u32> + Clone,
    range: Option<LengthRange>,
) -> Result<(), String> {
    let (Some(least), Some(most)) = (lengths.clone().min(), lengths.clone().max()) else {
        return Ok(());
    };
    let is_within = |range: LengthRange| {
        lengths.all(|length| (range.shortest()..=range.longest()).contains(&length))
    };
    refuse_if!(
        !range.is_some_and(is_within),
        "the trace's lengths are {least} to {most}; use {axis}: {least}-{most}, or a wider range"
    )
}

/// Refuses what a run of so many steps cannot get done within its time.
pub fn check_steps(variant: &Variant, steps: &Steps, time: Duration) -> Result<(), Refusal> {
    let limit = time.as_secs_f64();
    let refusal = |axis, reason| Err(Refusal { axis, reason });
    if let Some(wait) = variant.longest_wait_ms {
        let seconds = f64::from(wait.get()) / 1000.0;
        if seconds > limit {
            return refusal(
                "longest_wait_ms",
                format!("a request may wait {seconds} s, and the whole run {limit} s"),
            );
        }
    }
    if let Some(slo) = variant.slo_ms.filter(|_| variant.searches_rate()) {
        let search = least_search(Duration::from_millis(slo.get().into()));
        if search > time {
            return refusal(
                "slo_ms",
                format!(
                    "searching the highest rate takes {} s and more, and the whole run may take \
                     {limit} s; raise limits.time, or give arrival_rate",
                    search.as_secs_f64()
                ),
            );
        }
    }
    if let Some(rate) = variant.arrival_rate {
        let last = |requests: u32| f64::from(requests) / f64::from(rate.get());
        let warmup = last(steps.warmup).max(steps.warmup_seconds.into());
        let seconds = warmup + last(steps.measured);
        if seconds > limit {
            return refusal(
                "arrival_rate",
                format!(
                    "at {rate} requests a second the last of {} arrives after {seconds:.0} s, and \
                     the whole run may take {limit} s; raise the rate or limits.time, or take \
                     fewer steps",
                    u64::from(steps.warmup) + u64::from(steps.measured)
                ),
            );
        }
    }
    Ok(())
}

impl Combination<'_> {
    /// The value on an axis as text; empty where there is none.
    pub(crate) fn value(&self, axis: &str) -> String {
        self.variant.axes().get(axis).cloned().unwrap_or_default()
    }

    /// Whether the value on an axis is another one than the default.
    pub(crate) fn is_chosen(&self, axis: &str) -> bool {
        self.variant.axes().get(axis) != Variant::default().axes().get(axis)
    }

    /// Whether requests are answered token by token.
    pub(crate) fn answers(&self) -> bool {
        let serves = self.task == Task::Serving && self.model.is_decoder();
        serves || self.task == Task::Generation
    }

    /// A model is there exactly where something is computed.
    fn check_work(&self) -> Result<(), String> {
        match (self.model, self.task) {
            (Model::None, task) if task.computes() => Err(format!(
                "{task} computes a model; name one, or use the task allocation, collectives or idle"
            )),
            (model, task) if model != Model::None && !task.computes() => {
                Err(format!("{task} computes no model; use the model none"))
            }
            (model, Task::Generation) if !model.is_decoder() => Err(format!(
                "generation needs a decoder, such as llama-tiny, and {model} is none"
            )),
            _ => Ok(()),
        }
    }

    fn check_needs(&self, axis: &Axis) -> Result<(), String> {
        if !self.is_chosen(axis.name) {
            return Ok(());
        }
        let is_of_task = match self.task {
            Task::Allocation => axis.is_of_allocator || axis.needs.contains(&Need::Allocation),
            Task::Collectives => {
                axis.always
                    || axis.prefix == Nccl::PREFIX
                    || axis.needs.contains(&Need::Collectives)
            }
            task => task.computes(),
        };
        if !is_of_task {
            return Err(format!("{} computes no model; drop it", self.task));
        }
        let model = self.model;
        let input = model.input();
        let missing = axis.needs.iter().find_map(|need| match need {
            Need::Cuda if !self.device.is_cuda() => Some("a CUDA GPU".to_owned()),
            Need::Training if self.task != Task::Training => Some("the task training".to_owned()),
            Need::Images
                if !matches!(input, InputKind::Images { .. } | InputKind::Volumes { .. }) =>
            {
                Some(format!("images, and {model} reads tokens"))
            }
            Need::Tokens if !matches!(input, InputKind::Tokens { .. }) => {
                Some(format!("tokens, and {model} reads images"))
            }
            Need::Decoder if !model.is_decoder() => Some(format!(
                "a decoder, such as llama-tiny, and {model} is none"
            )),
            Need::Answers if !self.answers() => {
                Some("the task generation, or serving with a decoder".to_owned())
            }
            Need::Serving if self.task != Task::Serving => Some("the task serving".to_owned()),
            Need::Allocation if self.task != Task::Allocation => {
                Some("the task allocation".to_owned())
            }
            Need::Collectives if self.task != Task::Collectives => {
                Some("the task collectives".to_owned())
            }
            Need::Inference if self.task != Task::Inference => {
                Some("the task inference".to_owned())
            }
            Need::Eager if self.variant.execution != Execution::Eager => {
                Some("the execution eager, for a replayed step allocates nothing".to_owned())
            }
            _ => None,
        });
        let Some(missing) = missing else {
            return Ok(());
        };
        let instead = match Variant::default().axes().get(axis.name) {
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
    fn attention_is_of_models_that_have_it_in_a_precision_that_it_takes() {
        let gpu = Device::Cuda(0);
        for (model, device, variant) in [
            (Model::BertTiny, Device::Cpu, r#"{"attention":"math"}"#),
            (Model::Resnet50, gpu, r#"{"attention":"math"}"#),
            (Model::BertTiny, gpu, r#"{"attention":"flash"}"#),
            (
                Model::VitB16,
                gpu,
                r#"{"attention":"cudnn","precision":"tf32"}"#,
            ),
        ] {
            check_refused(model, Task::Training, device, variant, "attention");
        }
        for variant in [
            r#"{"attention":"efficient"}"#,
            r#"{"attention":"flash","precision":"amp-bf16"}"#,
        ] {
            let variant = serde_json::from_str(variant).unwrap();
            assert_eq!(check(Model::VitB16, Task::Training, &variant, gpu), Ok(()));
        }
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
        for (both, axis) in [
            (
                r#"{"execution":"cuda-graph","checkpointing":"blocks"}"#,
                "execution",
            ),
            (
                r#"{"execution":"cuda-graph","offload":"both"}"#,
                "execution",
            ),
            (
                r#"{"execution":"cuda-graph","activations":"int8"}"#,
                "activations",
            ),
        ] {
            check(Model::BertBase, gpu, both, axis);
        }
    }

    #[test]
    fn less_memory_means_something_where_there_is_any_of_its_kind() {
        let (cpu, gpu) = (Device::Cpu, Device::Cuda(0));
        let (train, serve) = (Task::Training, Task::Inference);
        for (task, device, variant, axis) in [
            (train, cpu, r#"{"offload":"activations"}"#, "offload"),
            (serve, gpu, r#"{"offload":"both"}"#, "offload"),
            (serve, gpu, r#"{"activations":"int8"}"#, "activations"),
            (
                train,
                cpu,
                r#"{"activations":"bf16","precision":"bf16"}"#,
                "activations",
            ),
            (
                train,
                cpu,
                r#"{"optimizer_state":"int8"}"#,
                "optimizer_state",
            ),
            (
                train,
                cpu,
                r#"{"optimizer_state":"bf16","optimizer":"adamw","precision":"bf16"}"#,
                "optimizer_state",
            ),
        ] {
            check_refused(Model::BertTiny, task, device, variant, axis);
        }
        let all = r#"{"offload":"both","activations":"int8","optimizer_state":"int8","optimizer":"adamw"}"#;
        let all = serde_json::from_str(all).unwrap();
        assert_eq!(super::check(Model::BertTiny, train, &all, gpu), Ok(()));
    }

    #[test]
    fn stages_and_nccl_mean_something_where_ranks_exchange() {
        let (cpu, gpu, train) = (Device::Cpu, Device::Cuda(0), Task::Training);
        for (device, variant, axis) in [
            (cpu, r#"{"nccl":"ALGO:Ring","parallel":"ddp"}"#, "nccl"),
            (gpu, r#"{"nccl":"ALGO:Ring"}"#, "nccl"),
            (cpu, r#"{"placement":"packed"}"#, "placement"),
            (
                gpu,
                r#"{"placement":"packed","parallel":"ddp"}"#,
                "placement",
            ),
            (
                gpu,
                r#"{"parallel":"pipeline","precision":"amp-fp16"}"#,
                "parallel",
            ),
            (
                cpu,
                r#"{"parallel":"pipeline","loader_workers":1}"#,
                "parallel",
            ),
            (
                cpu,
                r#"{"parallel":"pipeline","activations":"bf16"}"#,
                "parallel",
            ),
            (
                cpu,
                r#"{"parallel":"pipeline","retain":"outputs"}"#,
                "parallel",
            ),
        ] {
            check_refused(Model::BertTiny, train, device, variant, axis);
        }
        let both = r#"{"parallel":"pipeline","accumulation":4,"checkpointing":"blocks"}"#;
        let both = serde_json::from_str(both).unwrap();
        assert_eq!(super::check(Model::BertTiny, train, &both, cpu), Ok(()));
        let of_nccl: Variant = serde_json::from_str(r#"{"nccl":{"ALGO":"Ring"}}"#).unwrap();
        let checked = super::check(Model::None, Task::Collectives, &of_nccl, gpu);
        assert_eq!(checked, Ok(()));
        let set = of_nccl.environment(gpu);
        assert_eq!(set["NCCL_ALGO"], "Ring");
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
        for (axis, more) in [
            ("data", r#""data":"folder""#),
            (
                "data",
                r#""data":"folder","loader_workers":2,"folder_samples":1,"batch":2"#,
            ),
            (
                "folder_samples",
                r#""folder_samples":64,"loader_workers":2"#,
            ),
            (
                "page_cache",
                r#""page_cache":"cold","data":"synthetic","loader_workers":2"#,
            ),
            ("pin_memory", r#""pin_memory":true"#),
        ] {
            check_refused(model, Task::Training, gpu, &format!("{{{more}}}"), axis);
        }
        let pinned = r#"{"pin_memory":true,"loader_workers":2}"#;
        check_refused(model, Task::Training, cpu, pinned, "pin_memory");
        let folder = r#"{"data":"folder","loader_workers":2}"#;
        check_refused(model, Task::Inference, gpu, folder, "loader_workers");
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
    fn what_only_a_decoder_can_do_is_refused_by_name() {
        let (gpu, train) = (Device::Cuda(0), Task::Training);
        let (generate, llama) = (Task::Generation, Model::LlamaTiny);
        check_refused(Model::BertTiny, generate, gpu, "{}", "model");
        check_refused(
            Model::BertTiny,
            train,
            gpu,
            r#"{"lora_rank":8}"#,
            "lora_rank",
        );
        check_refused(
            Model::VitTiny,
            train,
            gpu,
            r#"{"precision":"bf16"}"#,
            "precision",
        );
        for (task, variant, axis) in [
            (train, r#"{"lora_targets":"k"}"#, "lora_targets"),
            (generate, r#"{"lora_merged":true}"#, "lora_merged"),
            (
                train,
                r#"{"lora_rank":8,"lora_merged":true}"#,
                "lora_merged",
            ),
            (train, r#"{"new_tokens":8}"#, "new_tokens"),
            (train, r#"{"sequence_length":257}"#, "sequence_length"),
            (generate, r#"{"sequence_length":225}"#, "sequence_length"),
            (generate, r#"{"new_tokens":225}"#, "new_tokens"),
            (
                generate,
                r#"{"sequence_lengths":"16-64"}"#,
                "sequence_lengths",
            ),
            (generate, r#"{"optimizer":"adamw"}"#, "optimizer"),
        ] {
            check_refused(llama, task, gpu, variant, axis);
        }
        for (task, variant) in [
            (
                train,
                r#"{"precision":"bf16","lora_rank":8,"lora_targets":"q+down"}"#,
            ),
            (
                generate,
                r#"{"lora_rank":8,"lora_merged":true,"sequence_length":224}"#,
            ),
        ] {
            let variant: Variant = serde_json::from_str(variant).unwrap();
            assert_eq!(super::check(llama, task, &variant, gpu), Ok(()));
        }
        let unknown = serde_json::from_str::<Variant>(r#"{"lora_targets":"q+w"}"#).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "unknown LoRA target `q+w`; expected some of q, k, v, o, gate, up and down, each once \
             and joined by + at line 1 column 22"
        );
    }

    #[test]
    fn serving_token_by_token_that_means_nothing_is_refused_by_name() {
        let (gpu, serve) = (Device::Cuda(0), Task::Serving);
        let rate = r#""arrival_rate":100"#;
        for (model, task, variant, axis) in [
            (
                Model::LlamaTiny,
                serve,
                format!(r#"{{{rate},"longest_wait_ms":5}}"#),
                "longest_wait_ms",
            ),
            (
                Model::LlamaTiny,
                serve,
                format!(r#"{{{rate},"new_tokens":4,"answer_lengths":"2-8"}}"#),
                "answer_lengths",
            ),
            (
                Model::LlamaTiny,
                serve,
                format!(r#"{{{rate},"sequence_lengths":"8-256"}}"#),
                "sequence_lengths",
            ),
            (
                Model::LlamaTiny,
                serve,
                format!(r#"{{{rate},"sequence_lengths":"8-200","answer_lengths":"2-57"}}"#),
                "answer_lengths",
            ),
            (
                Model::LlamaTiny,
                serve,
                format!(r#"{{{rate},"slo_token_ms":5}}"#),
                "slo_token_ms",
            ),
            (
                Model::LlamaTiny,
                serve,
                format!(r#"{{{rate},"slo_ms":5,"slo_token_ms":5,"new_tokens":1}}"#),
                "slo_token_ms",
            ),
            (
                Model::BertTiny,
                serve,
                format!(r#"{{{rate},"new_tokens":4}}"#),
                "new_tokens",
            ),
        ] {
            check_refused(model, task, gpu, &variant, axis);
        }
        let tokens = format!(
            r#"{{{rate},"slo_ms":200,"slo_token_ms":50,"batch":8,"sequence_lengths":"8-200",
                "answer_lengths":"2-56","execution":"cuda-graph","precision":"bf16"}}"#
        );
        let tokens: Variant = serde_json::from_str(&tokens).unwrap();
        assert_eq!(super::check(Model::LlamaTiny, serve, &tokens, gpu), Ok(()));
        assert_eq!((tokens.longest_answer(), tokens.mean_answer()), (56, 29.0));
    }

    #[test]
    fn serving_that_means_nothing_is_refused_by_name() {
        let (gpu, serve) = (Device::Cuda(0), Task::Serving);
        let rate = r#""arrival_rate":100"#;
        for (model, task, variant, axis) in [
            (Model::BertTiny, serve, "{}".to_owned(), "arrival_rate"),
            (Model::None, serve, format!("{{{rate}}}"), "model"),
            (
                Model::BertTiny,
                Task::Inference,
                format!("{{{rate}}}"),
                "arrival_rate",
            ),
            (
                Model::BertTiny,
                Task::Training,
                r#"{"slo_ms":20}"#.to_owned(),
                "slo_ms",
            ),
            (
                Model::BertTiny,
                serve,
                format!(r#"{{{rate},"batch":8,"queue_length":7}}"#),
                "queue_length",
            ),
            (
                Model::BertTiny,
                serve,
                format!(r#"{{{rate},"execution":"cuda-graph"}}"#),
                "execution",
            ),
            (
                Model::VitTiny,
                serve,
                format!(r#"{{{rate},"sequence_lengths":"8-32"}}"#),
                "sequence_lengths",
            ),
        ] {
            check_refused(model, task, gpu, &variant, axis);
        }
        let all = format!(
            r#"{{{rate},"arrivals":"gamma:0.5","longest_wait_ms":5,"queue_length":64,"slo_ms":20,
                "batch":8,"sequence_lengths":"8-32"}}"#
        );
        let all: Variant = serde_json::from_str(&all).unwrap();
        assert_eq!(super::check(Model::BertTiny, serve, &all, gpu), Ok(()));
        let refused = |steps: Steps, seconds| {
            let time = Duration::from_secs(seconds);
            super::check_steps(&all, &steps, time).map_err(|refusal| refusal.axis)
        };
        assert_eq!(refused(Steps::new(100, 900), 10), Ok(()));
        assert_eq!(refused(Steps::new(101, 900), 10), Err("arrival_rate"));
        let mut steps = Steps::new(0, 100);
        steps.warmup_seconds = 10;
        assert_eq!(refused(steps, 10), Err("arrival_rate"));
        assert_eq!(refused(Steps::new(0, 1), 0), Err("longest_wait_ms"));
        let search: Variant = serde_json::from_str(r#"{"slo_ms":50}"#).unwrap();
        assert_eq!(super::check(Model::BertTiny, serve, &search, gpu), Ok(()));
        for (seconds, is_enough) in [(10, true), (9, false)] {
            let time = Duration::from_secs(seconds);
            let checked = super::check_steps(&search, &Steps::new(0, 1), time);
            assert_eq!(checked.is_ok(), is_enough, "{checked:?}");
        }
        for bad in [
            r#"{"arrival_rate":0}"#,
            r#"{"arrival_rate":100001}"#,
            r#"{"arrivals":"gamma:0"}"#,
            r#"{"longest_wait_ms":0}"#,
            r#"{"slo_ms":-1}"#,
        ] {
            assert!(serde_json::from_str::<Variant>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_leaks_or_empties_nothing_is_refused_by_name() {
        let (cpu, gpu) = (Device::Cpu, Device::Cuda(0));
        let (train, infer) = (Task::Training, Task::Inference);
        for (task, device, variant, axis) in [
            (train, gpu, r#"{"gradients":"tracked"}"#, "gradients"),
            (
                Task::Generation,
                gpu,
                r#"{"gradients":"tracked"}"#,
                "gradients",
            ),
            (infer, gpu, r#"{"retain":"graph"}"#, "retain"),
            (
                infer,
                gpu,
                r#"{"retain":"graph","gradients":"inference-mode"}"#,
                "retain",
            ),
            (Task::Generation, gpu, r#"{"retain":"outputs"}"#, "retain"),
            (
                train,
                gpu,
                r#"{"retain":"outputs","execution":"cuda-graph"}"#,
                "retain",
            ),
            (train, cpu, r#"{"empty_cache":"each-step"}"#, "empty_cache"),
            (
                train,
                gpu,
                r#"{"empty_cache":"each-3","execution":"cuda-graph"}"#,
                "empty_cache",
            ),
        ] {
            check_refused(Model::LlamaTiny, task, device, variant, axis);
        }
        for (task, variant) in [
            (train, r#"{"retain":"graph","empty_cache":"each-2"}"#),
            (infer, r#"{"retain":"graph","gradients":"tracked"}"#),
            (
                infer,
                r#"{"retain":"outputs","gradients":"inference-mode"}"#,
            ),
            (Task::Generation, r#"{"empty_cache":"each-step"}"#),
        ] {
            let variant: Variant = serde_json::from_str(variant).unwrap();
            assert_eq!(super::check(Model::LlamaTiny, task, &variant, gpu), Ok(()));
            assert_eq!(Variant::of(&variant.axes()).unwrap(), variant);
        }
        for bad in [
            "each-0",
            "each-1",
            "each-",
            "each-x",
            "each-1000001",
            "always",
        ] {
            let text = format!(r#"{{"empty_cache":"{bad}"}}"#);
            assert!(serde_json::from_str::<Variant>(&text).is_err(), "{bad}");
        }
    }

    #[test]
    fn eight_bits_that_mean_nothing_are_refused_by_name() {
        let (gpu, train) = (Device::Cuda(0), Task::Training);
        for (model, task, variant, axis) in [
            (
                Model::Resnet50,
                train,
                r#"{"fp8":"tensor","precision":"amp-bf16"}"#,
                "fp8",
            ),
            (
                Model::Unet3d,
                train,
                r#"{"fp8":"row","precision":"amp-bf16"}"#,
                "fp8",
            ),
            (Model::VitB16, train, r#"{"fp8":"tensor"}"#, "fp8"),
            (
                Model::VitB16,
                train,
                r#"{"fp8":"row","precision":"amp-fp16"}"#,
                "fp8",
            ),
            (
                Model::VitB16,
                train,
                r#"{"fp8":"row","precision":"amp-bf16","parallel":"sharded"}"#,
                "parallel",
            ),
            (Model::Resnet50, Task::Inference, r#"{"qat":"int8"}"#, "qat"),
            (Model::Unet3d, train, r#"{"qat":"int8"}"#, "qat"),
            (
                Model::BertBase,
                train,
                r#"{"qat":"int8","checkpointing":"blocks"}"#,
                "qat",
            ),
            (
                Model::BertBase,
                train,
                r#"{"qat":"int8","fp8":"row","precision":"amp-bf16"}"#,
                "qat",
            ),
            (Model::BertBase, train, r#"{"int8":"dynamic"}"#, "int8"),
            (
                Model::Resnet50,
                Task::Inference,
                r#"{"int8":"dynamic"}"#,
                "int8",
            ),
            (
                Model::VitB16,
                Task::Inference,
                r#"{"int8":"dynamic","gradients":"tracked"}"#,
                "int8",
            ),
            (
                Model::VitB16,
                Task::Inference,
                r#"{"int8":"dynamic","fp8":"row","precision":"amp-bf16"}"#,
                "int8",
            ),
            (
                Model::LlamaTiny,
                Task::Generation,
                r#"{"int8":"dynamic","lora_rank":8}"#,
                "int8",
            ),
        ] {
            check_refused(model, task, gpu, variant, axis);
        }
        let serving = r#"{"int8":"dynamic","precision":"bf16","arrival_rate":10}"#;
        for (task, variant) in [
            (
                train,
                r#"{"fp8":"tensor","precision":"amp-bf16","checkpointing":"every-2"}"#,
            ),
            (
                train,
                r#"{"fp8":"row","precision":"bf16","execution":"cuda-graph"}"#,
            ),
            (train, r#"{"qat":"int8","precision":"amp-bf16"}"#),
            (Task::Serving, serving),
            (
                Task::Inference,
                r#"{"int8":"dynamic","precision":"amp-fp16","execution":"cuda-graph"}"#,
            ),
        ] {
            let variant: Variant = serde_json::from_str(variant).unwrap();
            assert_eq!(super::check(Model::BertBase, task, &variant, gpu), Ok(()));
            assert_eq!(Variant::of(&variant.axes()).unwrap(), variant);
        }
        assert!(serde_json::from_str::<Variant>(r#"{"fp8":"block"}"#).is_err());
    }

    #[test]
    fn volumes_and_patches_that_do_not_fit_are_refused_by_name() {
        let (gpu, train) = (Device::Cuda(0), Task::Training);
        for (model, task, variant, axis) in [
            (Model::Unet3d, train, r#"{"image_size":32}"#, "image_size"),
            (Model::Unet3d, train, r#"{"image_size":80}"#, "image_size"),
            (Model::Unet3d, train, r#"{"patch_size":160}"#, "patch_size"),
            (Model::Unet3d, train, r#"{"patch_size":48}"#, "patch_size"),
            (Model::Resnet50, train, r#"{"patch_size":64}"#, "patch_size"),
            (
                Model::Unet3d,
                Task::Serving,
                r#"{"patch_size":64,"arrival_rate":1}"#,
                "patch_size",
            ),
            (
                Model::Unet3d,
                train,
                r#"{"patch_size":64,"execution":"cuda-graph"}"#,
                "execution",
            ),
            (
                Model::Unet3d,
                train,
                r#"{"checkpointing":"every-2"}"#,
                "checkpointing",
            ),
            (Model::Unet3d, train, r#"{"attention":"math"}"#, "attention"),
            (
                Model::Unet3d,
                train,
                r#"{"parallel":"sharded"}"#,
                "parallel",
            ),
            (
                Model::Unet3d,
                train,
                r#"{"parallel":"pipeline"}"#,
                "parallel",
            ),
            (
                Model::Unet3d,
                train,
                r#"{"sequence_length":8}"#,
                "sequence_length",
            ),
            (
                Model::Unet3d,
                train,
                r#"{"data":"folder","loader_workers":1}"#,
                "data",
            ),
        ] {
            check_refused(model, task, gpu, variant, axis);
        }
        let whole =
            r#"{"image_size":256,"checkpointing":"blocks","memory_format":"channels-last"}"#;
        let patches = r#"{"image_size":160,"patch_size":128,"precision":"amp-fp16"}"#;
        for (task, variant) in [(train, whole), (train, patches), (Task::Inference, patches)] {
            let variant: Variant = serde_json::from_str(variant).unwrap();
            assert_eq!(
                super::check(Model::Unet3d, task, &variant, gpu),
                Ok(()),
                "{task}"
            );
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
