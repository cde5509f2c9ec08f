//! The same seed gives the same data everywhere.

use protocol::Model;
use scenario::{
    data::{Lengths, Source},
    models::IGNORED_LABEL,
};
use sha2::{Digest, Sha256};
use tch::{Device, Tensor};

use crate::support::{alone, variant};

fn integers(tensor: &Tensor) -> Vec<i64> {
    Vec::try_from(tensor.flatten(0, -1)).unwrap()
}

fn singles(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.flatten(0, -1)).unwrap()
}

/// A digest of input and labels of the first two micro-batches of seed 7.
fn check(model: Model, json: &str, expected: &str) {
    let source = Source::new(model, &variant(json), 7);
    let mut digest = Sha256::new();
    for index in 0..2 {
        let batch = source.micro_batch(index, Device::Cpu).unwrap();
        if batch.input.kind() == tch::Kind::Float {
            for pixel in singles(&batch.input) {
                digest.update(pixel.to_le_bytes());
            }
        } else {
            for token in integers(&batch.input) {
                digest.update(token.to_le_bytes());
            }
        }
        for label in integers(&batch.labels) {
            digest.update(label.to_le_bytes());
        }
    }
    let digest = format!("{:x}", digest.finalize());
    assert_eq!(&digest[..16], expected, "{model} {json}");
}

#[test]
fn data_never_change() {
    let _turn = alone();
    check(Model::ResnetTiny, r#"{"batch":3}"#, "ecc7742a4f09c3e0");
    // How the values lie in memory is not what they are.
    check(
        Model::ResnetTiny,
        r#"{"batch":3,"memory_format":"channels-last"}"#,
        "ecc7742a4f09c3e0",
    );
    check(Model::Resnet50, r#"{"batch":2}"#, "d1c4f40edfb77a83");
    check(Model::BertBase, r#"{"batch":2}"#, "28d1584ca604f6b5");
    check(
        Model::BertTiny,
        r#"{"batch":2,"sequence_length":16}"#,
        "2b1673748c201f9e",
    );
    check(Model::LlamaTiny, r#"{"batch":2}"#, "fb933c89c00880a9");
}

#[test]
fn a_decoder_is_to_guess_every_next_token() {
    let _turn = alone();
    let source = Source::new(Model::LlamaTiny, &variant(r#"{"batch":3}"#), 2);
    let batch = source.micro_batch(0, Device::Cpu).unwrap();
    assert_eq!(batch.input.size(), [3, 32]);
    assert_eq!(batch.labels.size(), [3, 32]);
    assert_eq!(batch.input.narrow(1, 1, 31), batch.labels.narrow(1, 0, 31));
    let last = integers(&batch.labels.select(1, 31));
    assert!(
        last.iter().all(|token| (1..1024).contains(token)),
        "{last:?}"
    );
}

#[test]
fn micro_batches_are_one_batch_cut_in_pieces() {
    let _turn = alone();
    for model in [Model::VitTiny, Model::BertTiny] {
        let whole = Source::new(model, &variant(r#"{"batch":6}"#), 1)
            .micro_batch(0, Device::Cpu)
            .unwrap();
        let source = Source::new(model, &variant(r#"{"batch":2}"#), 1);
        let pieces: Vec<_> = (0..3)
            .map(|index| source.micro_batch(index, Device::Cpu).unwrap())
            .collect();
        let inputs: Vec<_> = pieces.iter().map(|piece| &piece.input).collect();
        let labels: Vec<_> = pieces.iter().map(|piece| &piece.labels).collect();
        assert_eq!(Tensor::cat(&inputs, 0), whole.input);
        assert_eq!(Tensor::cat(&labels, 0), whole.labels);
    }
}

#[test]
fn sequences_are_masked_as_bert_wants() {
    let _turn = alone();
    let source = Source::new(Model::BertBase, &variant(r#"{"batch":50}"#), 2);
    let batch = source.micro_batch(0, Device::Cpu).unwrap();
    assert_eq!(batch.input.size(), [50, 128]);
    let (tokens, labels) = (integers(&batch.input), integers(&batch.labels));
    let mut masked = 0;
    for (&token, &label) in tokens.iter().zip(&labels) {
        assert!((1..30_522).contains(&token), "{token}");
        if label != IGNORED_LABEL {
            assert_eq!(token, 103);
            assert!((1..30_522).contains(&label), "{label}");
            masked += 1;
        }
    }
    // 15 % of 128 is 19.2.
    assert_eq!(masked, 50 * 19);
    // Every place is as likely as any other.
    let places: Vec<usize> = (0..labels.len())
        .filter(|&place| labels[place] != IGNORED_LABEL)
        .map(|place| place % 128)
        .collect();
    let mean = places.iter().sum::<usize>() as f64 / places.len() as f64;
    assert!((mean - 63.5).abs() < 5.0, "{mean}");
}

#[test]
fn even_the_shortest_sequence_has_something_to_guess() {
    let _turn = alone();
    let source = Source::new(Model::BertTiny, &variant(r#"{"sequence_length":1}"#), 2);
    let batch = source.micro_batch(0, Device::Cpu).unwrap();
    assert_eq!(integers(&batch.input), [103]);
    assert_ne!(integers(&batch.labels), [IGNORED_LABEL]);
}

#[test]
fn lengths_are_the_seed_s_alone() {
    let variant = variant(r#"{"sequence_lengths":"16-512"}"#);
    let lengths = |seed| Lengths::of(&variant, seed).unwrap();
    let measured = |seed, steps| -> Vec<u32> {
        (0..steps)
            .map(|step| lengths(seed).measured(step))
            .collect()
    };
    // Recorded once: every image, machine and version of libtorch draws these.
    assert_eq!(measured(7, 8), [289, 231, 149, 49, 98, 117, 82, 392]);
    let warmup: Vec<u32> = (0..4).map(|step| lengths(7).in_warmup(step)).collect();
    assert_ne!(warmup, measured(7, 4), "the warm-up draws its own");
    assert_ne!(measured(7, 8), measured(8, 8));

    let many = measured(1, 20_000);
    assert_eq!(many.iter().min(), Some(&16));
    assert_eq!(many.iter().max(), Some(&512));
    // Uniform: mean 264, deviation of the mean of 20,000 draws 1.01.
    let mean = many.iter().map(|&length| f64::from(length)).sum::<f64>() / 20_000.0;
    assert!((mean - 264.0).abs() < 5.0, "{mean}");
    assert!(Lengths::of(&crate::support::variant("{}"), 7).is_none());
}

#[test]
fn every_beginning_of_a_sequence_has_something_to_guess() {
    let _turn = alone();
    let json = r#"{"batch":50,"sequence_lengths":{"min":2,"max":64}}"#;
    let source = Source::new(Model::BertTiny, &variant(json), 2);
    let whole = source.micro_batch(0, Device::Cpu).unwrap();
    assert_eq!(whole.input.size(), [50, 64]);
    for length in [2_u32, 17, 64] {
        let batch = whole.beginning(length).unwrap();
        let shape = [50, i64::from(length)];
        assert_eq!(
            (batch.input.size(), batch.labels.size()),
            (shape.to_vec(), shape.to_vec())
        );
        assert!(batch.input.is_contiguous());
        assert_eq!(batch.input, whole.input.narrow(1, 0, length.into()));
        let labels = integers(&batch.labels);
        for sequence in labels.chunks(length as usize) {
            assert!(sequence.iter().any(|&label| label != IGNORED_LABEL));
        }
    }
    // One of the first two, and 15 % of the 62 others.
    let masked = integers(&whole.labels)
        .iter()
        .filter(|&&label| label != IGNORED_LABEL)
        .count();
    assert_eq!(masked, 50 * (1 + 9));
}

#[test]
fn labels_are_classes_of_the_model() {
    let _turn = alone();
    let source = Source::new(Model::VitTiny, &variant(r#"{"batch":400}"#), 2);
    let labels = integers(&source.micro_batch(0, Device::Cpu).unwrap().labels);
    let mut seen: Vec<i64> = labels;
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}
