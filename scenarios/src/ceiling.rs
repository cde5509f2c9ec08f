//! How fast the device could be: a large square matrix product in the variant's precision.
//!
//! Utilisation is a share of what this very device reaches, in this container and under these
//! clocks, not of a data sheet: that one is a limit that no product reaches.

use std::time::Duration;

use protocol::{Device, Precision};
use tch::{Kind, Tensor};

use crate::{Error, device, stopwatch::Stopwatch};

/// Rows and columns of the matrices. On a GPU, large enough to fill every multiprocessor many
/// times over; on the CPU, a few milliseconds each, so that some of them run undisturbed.
const GPU_SIZE: i64 = 8192;
const CPU_SIZE: i64 = 512;
/// Products before measuring: clocks rise, libraries choose their kernel.
const WARMUP: usize = 3;
/// Measured at least so often and so long.
const LEAST_PRODUCTS: usize = 5;
const LEAST_TIME: Duration = Duration::from_millis(100);
const MOST_PRODUCTS: usize = 100;

/// Operations a second of the fastest of a row of products; `None` where the device has no room
/// for the matrices.
///
/// A CPU without instructions for a half precision emulates it, slower than it computes in single
/// precision, which autocast leaves part of the work in: there the faster of the two is the ceiling.
pub fn matmul_flops_per_second(precision: Precision, device: Device) -> Result<Option<f64>, Error> {
    let precisions = match precision {
        Precision::AmpFp16 | Precision::AmpBf16 | Precision::Bf16 if !device.is_cuda() => {
            vec![precision, Precision::Fp32]
        }
        _ => vec![precision],
    };
    let rates: Result<Vec<f64>, Error> = precisions
        .into_iter()
        .map(|precision| measure(precision, device))
        .collect();
    match rates.map(|rates| rates.into_iter().fold(0.0, f64::max)) {
        Ok(rate) => Ok(Some(rate)),
        Err(error) if error.reason() == protocol::FailureReason::OutOfMemory => Ok(None),
        Err(error) => Err(error),
    }
}

fn measure(precision: Precision, device: Device) -> Result<f64, Error> {
    let _untracked = tch::no_grad_guard();
    let place = device::place(device);
    let size = if device.is_cuda() { GPU_SIZE } else { CPU_SIZE };
    let kind = match precision {
        Precision::Fp32 | Precision::Tf32 => Kind::Float,
        Precision::AmpFp16 => Kind::Half,
        Precision::AmpBf16 | Precision::Bf16 => Kind::BFloat16,
    };
    let matrix = || -> Result<Tensor, Error> {
        let random = Tensor::f_randn([size, size], (Kind::Float, place))?;
        Ok(random.f_to_kind(kind)?)
    };
    let (left, right) = (matrix()?, matrix()?);
    let mut product = left.f_matmul(&right)?;
    let multiply = |into: &mut Tensor| -> Result<(), Error> {
        *into = into.f_matmul_out(&left, &right)?;
        Ok(())
    };
    for _ in 0..WARMUP {
        multiply(&mut product)?;
    }
    device::synchronize(device)?;

    let mut times: Vec<f64> = Vec::new();
    while times.len() < MOST_PRODUCTS
        && (times.len() < LEAST_PRODUCTS || times.iter().sum::<f64>() < LEAST_TIME.as_secs_f64())
    {
        let mut stopwatch = Stopwatch::new(LEAST_PRODUCTS, place)?;
        stopwatch.mark()?;
        for _ in 0..LEAST_PRODUCTS {
            multiply(&mut product)?;
            stopwatch.mark()?;
        }
        times.extend(stopwatch.seconds()?);
    }
    let fastest = times.into_iter().fold(f64::INFINITY, f64::min);
    Ok(2.0 * (size as f64).powi(3) / fastest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_has_a_ceiling() {
        let _turn = crate::nn::draw_alone();
        let rate = matmul_flops_per_second(Precision::Fp32, Device::Cpu).unwrap();
        // Slower than the slowest CPU that libtorch runs on, faster than any.
        assert!(
            matches!(rate, Some(rate) if (1e8..1e15).contains(&rate)),
            "{rate:?}"
        );
    }

    #[test]
    fn half_precision_on_a_cpu_has_no_lower_ceiling_than_single() {
        let _turn = crate::nn::draw_alone();
        let of = |precision| {
            matmul_flops_per_second(precision, Device::Cpu)
                .unwrap()
                .unwrap()
        };
        // Emulated, half precision is several times slower in every pair; whatever else runs here
        // slows down some of them.
        let is_as_high = |_| of(Precision::AmpBf16) > 0.5 * of(Precision::Fp32);
        assert!((0..10).any(is_as_high));
    }
}
