//! Models that read volumes: the reference's numbers, patches, windows.

use protocol::{Model, Task};
use scenario::{
    data::Patches,
    models::{self, window},
    nn::Pass,
    training::{Feed, StepLog, Unobserved},
};
use tch::{Device, Kind, Tensor};

use crate::support::{alone, batches, placement, variant, work};

#[test]
fn a_loss_is_that_of_the_reference() {
    let _turn = alone();
    let built = models::build(Model::Unet3dTiny, placement(&variant("{}"), true)).unwrap();
    libtorch::seed(2).unwrap();
    let scores = Tensor::randn([2, 3, 4, 4, 4], (Kind::Float, Device::Cpu));
    let labels = Tensor::randint(3, [2, 4, 4, 4], (Kind::Int64, Device::Cpu));
    let got = built.network.loss(scores.shallow_clone(), &labels).unwrap();
    // losses.py, with one_hot in place of comparisons.
    let dimensions = [2_i64, 3, 4];
    let truth = labels
        .one_hot(3)
        .permute([0, 4, 1, 2, 3])
        .to_kind(Kind::Float);
    let shares = scores.softmax(1, Kind::Float);
    let sum = |of: Tensor| {
        of.sum_dim_intlist(dimensions.as_slice(), false, Kind::Float)
            .narrow(1, 1, 2)
    };
    let both = sum(&truth * &shares) * 2.0 + 1e-6;
    let dice: Tensor = both / (sum(truth) + sum(shares) + 1e-6);
    let entropy =
        scores.cross_entropy_loss(&labels, None::<&Tensor>, tch::Reduction::Mean, -100, 0.0);
    let missed: Tensor = 1.0 - dice;
    let expected = (missed.mean(Kind::Float) + entropy) / 2.0;
    let off = (got - expected).abs().double_value(&[]);
    assert!(off < 1e-6, "{off}");
}

#[test]
fn scores_have_the_edges_of_volumes() {
    let _turn = alone();
    for json in [
        r#"{"batch":2}"#,
        r#"{"batch":1,"image_size":24,"memory_format":"channels-last"}"#,
    ] {
        let variant = variant(json);
        let built = models::build(Model::Unet3dTiny, placement(&variant, true)).unwrap();
        let batch = &batches(Model::Unet3dTiny, &variant, 1)[0];
        let scores = built
            .network
            .forward(&batch.input, Pass::default())
            .unwrap();
        let mut sizes = batch.input.size();
        sizes[1] = 3;
        assert_eq!(scores.size(), sizes);
        assert_eq!(batch.labels.size(), [&sizes[..1], &sizes[2..]].concat());
    }
}

#[test]
fn volumes_have_all_classes_and_are_brighter_where_they_are() {
    let variant = variant(r#"{"batch":3,"image_size":32}"#);
    let batch = &batches(Model::Unet3dTiny, &variant, 1)[0];
    for sample in 0..3 {
        let (voxels, labels) = (batch.input.get(sample).squeeze(), batch.labels.get(sample));
        let shares: Vec<f64> = (0..3)
            .map(|class| {
                let of = labels.eq(class);
                let mean = voxels
                    .masked_select(&of)
                    .mean(Kind::Float)
                    .double_value(&[]);
                assert!((mean - class as f64).abs() < 0.25, "{class}: {mean}");
                of.to_kind(Kind::Float).mean(Kind::Float).double_value(&[])
            })
            .collect();
        // Balls of radius 0.3 and 0.12.
        assert!((shares[1] + shares[2] - 0.1131).abs() < 0.01, "{shares:?}");
        assert!((shares[2] - 0.0072).abs() < 0.003, "{shares:?}");
    }
}

#[test]
fn patches_are_cut_alike_from_voxels_and_labels_and_move() {
    let json = variant(r#"{"batch":1,"image_size":24,"patch_size":16}"#);
    let all = batches(Model::Unet3dTiny, &json, 1);
    // A volume whose voxels say where they are, so that patches do.
    let places = Tensor::arange(24 * 24 * 24, (Kind::Float, Device::Cpu));
    all[0].input.view([-1]).copy_(&places);
    all[0].labels.view([-1]).copy_(&places);
    let patches = Patches::of(&json, Task::Training, 1).unwrap();
    let mut corners = Vec::new();
    for step in 0..8 {
        let mut fixed = all.as_slice();
        let patch = patches.cut(&mut fixed, step).micro_batch(0).unwrap();
        assert_eq!(patch.input.size(), [1, 1, 16, 16, 16]);
        assert!(
            patch
                .input
                .view([-1])
                .equal(&patch.labels.reshape([-1]).to_kind(Kind::Float))
        );
        corners.push(patch.labels.int64_value(&[0, 0, 0, 0]));
        let again = patches
            .cut(&mut all.as_slice(), step)
            .micro_batch(0)
            .unwrap();
        assert!(again.input.equal(&patch.input));
    }
    corners.sort_unstable();
    corners.dedup();
    assert!(corners.len() > 6, "{corners:?}");
    assert!(Patches::of(&json, Task::Inference, 1).is_none());
}

/// A trained model's scores over windows differ from those of the whole, for a window normalises by
/// what it sees, but no more where windows meet than elsewhere.
#[test]
fn seams_of_windows_are_no_worse_than_their_inside() {
    let _turn = alone();
    let json = variant(r#"{"batch":1,"image_size":48,"optimizer":"adamw"}"#);
    let mut trained = work(Model::Unet3dTiny, Task::Training, &json, 5);
    let all = batches(Model::Unet3dTiny, &json, 1);
    let log = StepLog::new(10, Device::Cpu).unwrap();
    for step in 0..10 {
        trained.step(step, &all, &log, &mut Unobserved).unwrap();
    }
    let built = models::build(Model::Unet3dTiny, placement(&json, true)).unwrap();
    for ((_, to), (_, from)) in built
        .parameters
        .trained()
        .iter()
        .zip(trained.parameters().trained())
    {
        tch::no_grad(|| to.shallow_clone().copy_(from));
    }
    let slid = tch::no_grad(|| window::slide(&*built.network, &all[0].input, 32, Pass::default()))
        .unwrap();
    assert_eq!(slid.size(), [1, 3, 48, 48, 48]);
    // Steps from one voxel to the next along each edge: windows end at 16 and 32.
    for dimension in 2..5 {
        let steps = slid
            .diff(1, dimension, None::<&Tensor>, None::<&Tensor>)
            .abs();
        let mean = |at: i64| {
            steps
                .narrow(dimension, at, 1)
                .mean(Kind::Float)
                .double_value(&[])
        };
        for seam in [15, 31] {
            let beside = [-4, -3, -2, 2, 3, 4].map(|away| mean(seam + away));
            let beside = beside.iter().sum::<f64>() / 6.0;
            let at = mean(seam);
            assert!(at < 1.25 * beside, "{dimension} {seam}: {at} {beside}");
        }
    }
}

#[test]
fn a_unet_learns_whole_volumes() {
    let _turn = alone();
    let json = variant(r#"{"batch":2}"#);
    let mut work = work(Model::Unet3dTiny, Task::Training, &json, 1);
    let all = batches(Model::Unet3dTiny, &json, 1);
    let log = StepLog::new(40, Device::Cpu).unwrap();
    for step in 0..40 {
        work.step(step, &all, &log, &mut Unobserved).unwrap();
    }
    let losses = log.losses().unwrap();
    assert!(losses[39] < 0.95 * losses[0], "{losses:?}");
}

#[test]
fn inference_slides_and_training_takes_patches() {
    let _turn = alone();
    for (task, size, times) in [(Task::Training, 16, 1.0), (Task::Inference, 16, 27.0)] {
        let json = variant(r#"{"batch":1,"image_size":32,"patch_size":16}"#);
        let read = models::read_at_once(Model::Unet3dTiny, task, &json);
        assert_eq!(read, (size, times), "{task}");
        let mut work = work(Model::Unet3dTiny, task, &json, 5);
        let log = StepLog::new(2, Device::Cpu).unwrap();
        let all = batches(Model::Unet3dTiny, &json, 1);
        work.step(0, &all, &log, &mut Unobserved).unwrap();
    }
}
