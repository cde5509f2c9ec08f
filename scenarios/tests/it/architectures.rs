//! Parameters: how many, and under which names.

use protocol::{Model, Task};
use scenario::models;

use crate::support::{alone, placement, variant};

/// Counts without touching the memory, so that a large model costs nothing.
fn check(model: Model, count: u64, first_and_last: [&str; 2]) {
    let built = models::build(model, placement(&variant("{}"), false)).unwrap();
    let trained = built.parameters.trained();
    assert_eq!(built.parameters.count(), count, "{model}");
    assert_eq!(built.parameters.bytes(), 4 * count, "{model}");
    assert_eq!(trained[0].0, first_and_last[0]);
    assert_eq!(trained[trained.len() - 1].0, first_and_last[1]);
    let mut names: Vec<_> = trained.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), trained.len(), "{model} has a name twice");
}

#[test]
fn counts_are_those_of_the_references() {
    let _turn = alone();
    let bert = [
        "bert.embeddings.word_embeddings.weight",
        "cls.predictions.transform.LayerNorm.bias",
    ];
    let llama = ["model.embed_tokens.weight", "lm_head.weight"];
    let tied = ["model.embed_tokens.weight", "model.norm.weight"];
    let vit = ["cls_token", "head.bias"];
    // torchvision: ResNet50_Weights.meta["num_params"].
    check(Model::Resnet50, 25_557_032, ["conv1.weight", "fc.bias"]);
    // transformers: sum(p.numel() for p in BertForMaskedLM(config).parameters()).
    check(Model::BertBase, 109_514_298, bert);
    check(Model::BertLarge, 335_174_458, bert);
    // golden/llama-tiny.json, `counts`, which transformers counted.
    check(Model::LlamaTiny, 139_584, tied);
    check(Model::Llama2With7B, 6_738_415_616, llama);
    check(Model::Llama31With8B, 8_030_261_248, llama);
    check(Model::Llama32With1B, 1_235_814_400, tied);
    // torchvision: ViT_B_16_Weights and ViT_L_16_Weights .meta["num_params"]; timm has as many.
    check(Model::VitB16, 86_567_656, vit);
    check(Model::VitL16, 304_326_632, vit);
    let unet = ["input_block.conv1.0.weight", "output.conv.0.bias"];
    check(Model::Unet3d, unet3d(&[32, 64, 128, 256, 320]), unet);
    assert_eq!(unet3d(&[32, 64, 128, 256, 320]), 31_190_243);
    check(Model::Unet3dTiny, unet3d(&[4, 8, 16]), unet);
    // Added up by hand from the sizes in protocol::Model.
    check(
        Model::ResnetTiny,
        resnet_tiny(),
        ["conv1.weight", "fc.bias"],
    );
    check(Model::BertTiny, bert_tiny(), bert);
    check(Model::VitTiny, vit_tiny(), vit);
}

fn resnet_tiny() -> u64 {
    let norm = |channels: u64| 2 * channels;
    let block = |inputs: u64, width: u64| {
        let outputs = 4 * width;
        inputs * width
            + norm(width)
            + 9 * width * width
            + norm(width)
            + width * outputs
            + norm(outputs)
            + inputs * outputs
            + norm(outputs)
    };
    let stem = 3 * 49 * 16 + norm(16);
    stem + block(16, 16) + block(64, 32) + block(128, 64) + block(256, 128) + 512 * 10 + 10
}

/// `mlcommons/training`, `image_segmentation/pytorch/model`: two convolutions of 3³ with a normalisation
/// each way a level and at the bottom, one of 2³ with a bias on the way up.
fn unet3d(channels: &[u64]) -> u64 {
    let conv = |inputs: u64, outputs: u64| 27 * inputs * outputs + 2 * outputs;
    let bottom = channels[channels.len() - 1];
    let (mut sum, mut inputs) = (0, 1);
    for &outputs in channels.iter().chain([&bottom]) {
        sum += conv(inputs, outputs) + conv(outputs, outputs);
        inputs = outputs;
    }
    for &outputs in channels.iter().rev() {
        sum += 8 * inputs * outputs + outputs;
        sum += conv(2 * outputs, outputs) + conv(outputs, outputs);
        inputs = outputs;
    }
    sum + 3 * inputs + 3
}

fn encoder_layer(width: u64) -> u64 {
    let linear = |inputs: u64, outputs: u64| inputs * outputs + outputs;
    4 * linear(width, width) + linear(width, 4 * width) + linear(4 * width, width) + 4 * width
}

fn bert_tiny() -> u64 {
    let (words, width) = (1024, 64);
    let embeddings = (words + 128 + 2) * width + 2 * width;
    let head = words + width * width + width + 2 * width;
    embeddings + 2 * encoder_layer(width) + head
}

fn vit_tiny() -> u64 {
    let (patches, width) = (16, 64);
    let embeddings = width + (patches + 1) * width + 3 * 64 * width + width;
    embeddings + 2 * encoder_layer(width) + 2 * width + 10 * width + 10
}

/// The parameters and buffers whose names begin so, in their order.
fn check_names(model: Model, prefix: &str, parameters: &[&str], buffers: &[&str]) {
    let built = models::build(model, placement(&variant("{}"), false)).unwrap();
    let named = |tensors: &[(String, tch::Tensor)]| -> Vec<String> {
        tensors
            .iter()
            .filter_map(|(name, _)| name.strip_prefix(prefix).map(str::to_owned))
            .collect()
    };
    assert_eq!(named(built.parameters.trained()), parameters, "{model}");
    assert_eq!(named(built.parameters.buffers()), buffers, "{model}");
}

#[test]
fn names_are_those_of_the_references() {
    let _turn = alone();
    check_names(
        Model::Resnet50,
        "layer1.0.",
        &[
            "conv1.weight",
            "bn1.weight",
            "bn1.bias",
            "conv2.weight",
            "bn2.weight",
            "bn2.bias",
            "conv3.weight",
            "bn3.weight",
            "bn3.bias",
            "downsample.0.weight",
            "downsample.1.weight",
            "downsample.1.bias",
        ],
        &[
            "bn1.running_mean",
            "bn1.running_var",
            "bn2.running_mean",
            "bn2.running_var",
            "bn3.running_mean",
            "bn3.running_var",
            "downsample.1.running_mean",
            "downsample.1.running_var",
            "bn1.num_batches_tracked",
            "bn2.num_batches_tracked",
            "bn3.num_batches_tracked",
            "downsample.1.num_batches_tracked",
        ],
    );
    check_names(
        Model::BertBase,
        "bert.encoder.layer.11.",
        &[
            "attention.self.query.weight",
            "attention.self.query.bias",
            "attention.self.key.weight",
            "attention.self.key.bias",
            "attention.self.value.weight",
            "attention.self.value.bias",
            "attention.output.dense.weight",
            "attention.output.dense.bias",
            "attention.output.LayerNorm.weight",
            "attention.output.LayerNorm.bias",
            "intermediate.dense.weight",
            "intermediate.dense.bias",
            "output.dense.weight",
            "output.dense.bias",
            "output.LayerNorm.weight",
            "output.LayerNorm.bias",
        ],
        &[],
    );
    check_names(
        Model::VitB16,
        "blocks.11.",
        &[
            "norm1.weight",
            "norm1.bias",
            "attn.qkv.weight",
            "attn.qkv.bias",
            "attn.proj.weight",
            "attn.proj.bias",
            "norm2.weight",
            "norm2.bias",
            "mlp.fc1.weight",
            "mlp.fc1.bias",
            "mlp.fc2.weight",
            "mlp.fc2.bias",
        ],
        &[],
    );
}

#[test]
fn names_of_a_unet_are_those_of_the_reference() {
    let _turn = alone();
    let conv = ["0.weight", "1.weight", "1.bias"];
    let mut names = vec![
        "upsample_conv.0.weight".to_owned(),
        "upsample_conv.0.bias".to_owned(),
    ];
    names.extend(
        ["conv1", "conv2"]
            .iter()
            .flat_map(|part| conv.map(|name| format!("{part}.{name}"))),
    );
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    check_names(Model::Unet3d, "upsample.4.", &names, &[]);
    check_names(Model::Unet3d, "downsample.3.", &names[2..], &[]);
    check_names(Model::Unet3d, "bottleneck.", &names[2..], &[]);
    check_names(Model::Unet3d, "downsample.4.", &[], &[]);
}

#[test]
fn operations_are_those_that_others_count() {
    fn check(model: Model, json: &str, published: f64, tolerance: f64) {
        let variant = variant(json);
        let size = models::input_size(model, &variant);
        let forward = models::flops_per_sample(model, Task::Inference, size);
        let share = forward / published;
        assert!(
            (share - 1.0).abs() < tolerance,
            "{model}: {forward} is {share} of it"
        );
        let training = models::flops_per_sample(model, Task::Training, size);
        assert!((training / forward - 3.0).abs() < 1e-12);
    }
    // torchvision's `_ops` of ResNet50_Weights, ViT_B_16_Weights and ViT_L_16_Weights counts
    // 10⁹ multiply-adds, which are two operations each.
    check(Model::Resnet50, "{}", 2.0 * 4.089e9, 0.001);
    check(Model::VitB16, "{}", 2.0 * 17.564e9, 0.001);
    check(Model::VitL16, "{}", 2.0 * 61.555e9, 0.001);
    // Clark et al., «ELECTRA», 2020, table 8: BERT-base, 128 tokens, 2.9e10 operations.
    check(Model::BertBase, r#"{"sequence_length":128}"#, 2.9e10, 0.03);
    // Kaplan et al., «Scaling Laws for Neural Language Models», 2020, table 1: two operations a
    // token for each parameter that is no embedding, and those of attention.
    let tokens = 256.0 * 2.0 * (6_738_415_616.0 - 32_000.0 * 4096.0);
    check(
        Model::Llama2With7B,
        r#"{"sequence_length":256}"#,
        tokens,
        0.01,
    );
    // Per voxel at the top: 32 × (1 + 32) + (64 + 32) × 32 windows of 27, the doubling, the last layer;
    // an eighth of the voxels a level down, the bottom has 4³.
    let level = |edge: f64, windows: f64, others: f64| (27.0 * windows + others) * edge.powi(3);
    let unet = level(128.0, 1056.0 + 3072.0, 64.0 * 32.0 + 96.0)
        + level(64.0, 64.0 * 96.0 + 64.0 * 192.0, 128.0 * 64.0)
        + level(32.0, 128.0 * 192.0 + 128.0 * 384.0, 256.0 * 128.0)
        + level(16.0, 256.0 * 384.0 + 256.0 * 768.0, 320.0 * 256.0)
        + level(8.0, 320.0 * 576.0 + 320.0 * 960.0, 320.0 * 320.0)
        + level(4.0, 320.0 * 640.0, 0.0);
    check(Model::Unet3d, "{}", 2.0 * unet, 1e-9);
    // Convolutions go with the pixels, the 2048 × 1000 products of the last layer do not.
    let last = 2.048e6;
    let smaller = (4.089e9 - last) * (64.0_f64 / 224.0).powi(2) + last;
    check(
        Model::Resnet50,
        r#"{"image_size":64}"#,
        2.0 * smaller,
        0.001,
    );
}
