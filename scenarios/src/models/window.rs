//! Inference over a volume that is larger than what a model reads at once, as `MLPerf`'s reference for
//! `KiTS19`: windows that overlap by a half, of whose scores those in the middle count most.

use libtorch::Result;
use tch::{Device, Kind, Tensor};

use super::Network;
use crate::nn::Pass;

/// Places of windows of `patch` voxels along an edge of `whole`, from which on each overlaps the one
/// before by a half at least.
pub fn places(whole: i64, patch: i64) -> Vec<i64> {
    let last = whole - patch;
    let mut places: Vec<i64> = (0..=2 * last / patch)
        .map(|index| index * patch / 2)
        .take_while(|&at| at < last)
        .collect();
    places.push(last);
    places
}

/// What each voxel of a window counts: the cube root of a normal density about the middle, of an
/// eighth of the edges' deviation.
fn weights(patch: i64, device: Device) -> Result<Tensor> {
    let middle = (patch - 1) as f64 / 2.0;
    let along = Tensor::f_arange(patch, (Kind::Float, device))?
        .f_sub_scalar(middle)?
        .f_div_scalar(patch as f64 / 8.0)?
        .f_square()?
        .f_mul_scalar(-0.5 / 3.0)?
        .f_exp()?;
    let plane = along.f_view([-1, 1])?.f_mul(&along)?;
    Ok(along.f_view([-1, 1, 1])?.f_mul(&plane)?)
}

/// The scores of `[batch, 1, depth, height, width]`, in single precision.
pub fn slide(network: &dyn Network, volume: &Tensor, patch: i64, pass: Pass) -> Result<Tensor> {
    let sizes = volume.size();
    let weights = weights(patch, volume.device())?;
    let cut = |of: &Tensor, at: [i64; 3]| -> Result<Tensor> {
        let mut part = of.shallow_clone();
        for (dimension, at) in (-3..).zip(at) {
            part = part.f_narrow(dimension, at, patch)?;
        }
        Ok(part)
    };
    let mut all: Option<[Tensor; 2]> = None;
    for depth in places(sizes[2], patch) {
        for height in places(sizes[3], patch) {
            for width in places(sizes[4], patch) {
                let at = [depth, height, width];
                let window = cut(volume, at)?.f_contiguous()?;
                let scores = network.forward(&window, pass)?.f_to_kind(Kind::Float)?;
                let [sum, counted] = if let Some(all) = &all {
                    all
                } else {
                    let options = (Kind::Float, volume.device());
                    let mut whole = sizes.clone();
                    whole[1] = scores.size()[1];
                    let sum = Tensor::f_zeros(&*whole, options)?;
                    all.insert([sum, Tensor::f_zeros(&sizes[2..], options)?])
                };
                let _ = cut(sum, at)?.f_add_(&scores.f_mul(&weights)?)?;
                let _ = cut(counted, at)?.f_add_(&weights)?;
            }
        }
    }
    let Some([mut sum, counted]) = all else {
        return network.forward(volume, pass);
    };
    Ok(sum.f_div_(&counted)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of a voxel that are its own value and the double of it.
    #[derive(Debug)]
    struct Pointwise;

    impl Network for Pointwise {
        fn forward(&self, input: &Tensor, _: Pass) -> Result<Tensor> {
            assert_eq!(input.size()[2..], [8, 8, 8]);
            Ok(Tensor::f_cat(&[input, &input.f_mul_scalar(2.0)?], 1)?)
        }

        fn loss(&self, scores: Tensor, _: &Tensor) -> Result<Tensor> {
            Ok(scores)
        }
    }

    #[test]
    fn windows_reach_every_voxel_and_end_with_the_volume() {
        assert_eq!(places(8, 8), [0]);
        assert_eq!(places(16, 8), [0, 4, 8]);
        assert_eq!(places(18, 8), [0, 4, 8, 10]);
    }

    #[test]
    fn there_are_no_seams_where_each_voxel_is_for_itself() {
        let _turn = crate::nn::draw_alone();
        tch::manual_seed(3);
        for edges in [[8, 8, 8], [16, 20, 18]] {
            let shape = [[2, 1].as_slice(), &edges].concat();
            let volume = Tensor::randn(&*shape, (Kind::Float, Device::Cpu));
            let scores = slide(&Pointwise, &volume, 8, Pass::default()).unwrap();
            let expected = Tensor::cat(&[&volume, &(&volume * 2.0)], 1);
            let off = (&scores - &expected).abs().max().double_value(&[]);
            assert!(off < 1e-5, "{edges:?}: {off}");
        }
    }

    #[test]
    fn the_middle_of_a_window_counts_most() {
        let weights = weights(8, Device::Cpu).unwrap();
        let at = |place: [i64; 3]| weights.double_value(&place);
        // Half a voxel, and three and a half, from the middle; the deviation is one voxel.
        let expected = |far: f64| (-far * far / 2.0 / 3.0).exp();
        assert!((at([4, 4, 4]) - expected(0.5).powi(3)).abs() < 1e-6);
        assert!((at([0, 4, 4]) - expected(3.5) * expected(0.5).powi(2)).abs() < 1e-6);
        assert!((at([4, 4, 0]) - at([0, 4, 4])).abs() < 1e-7);
    }
}
