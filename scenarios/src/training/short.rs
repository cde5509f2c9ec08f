//! `AdamW`'s moments in a short form: all of a group of parameters one after the other, opened to
//! the parameters' type for a step and closed again, in a dozen operations whatever their number.

use std::{f32, iter};

use libtorch::Result;
use protocol::OptimizerState as Form;
use tch::{Device, Kind, Tensor};

use crate::nn;

/// Values that share a scale. Each parameter begins with a block of its own.
const BLOCK: i64 = 256;

/// One moment of some parameters.
#[derive(Debug)]
pub(super) struct Short {
    /// Where each parameter begins, and where the last one ends.
    places: Vec<i64>,
    values: Tensor,
    /// Of 8 bits alone.
    coded: Option<Coded>,
}

/// What 8 bits stand for.
#[derive(Debug)]
struct Coded {
    /// The largest magnitude of each block, `[blocks, 1]`.
    scales: Tensor,
    /// 256 shares of it, in order.
    code: Tensor,
    /// What separates them.
    bounds: Tensor,
}

/// The dynamic code of Dettmers et al., «8-bit Optimizers via Block-wise Quantization», 2021: each
/// decade down from 1 has half as many values as the one above, so that small ones keep digits.
fn dynamic_code(is_signed: bool) -> Vec<f32> {
    let decade = |index: i32| {
        let count = 1 << (index + i32::from(!is_signed));
        let unit = 10_f32.powi(index - 6);
        (0..count).map(move |place| unit * (0.1 + 0.9 * (place as f32 + 0.5) / count as f32))
    };
    let above: Vec<f32> = (0..7).flat_map(decade).collect();
    let below = above.iter().filter(|_| is_signed).map(|share| -share);
    let mut all: Vec<f32> = below
        .chain([0.0, 1.0])
        .chain(above.iter().copied())
        .collect();
    all.sort_by(f32::total_cmp);
    all
}

impl Coded {
    fn new(is_signed: bool, device: Device) -> Result<Self> {
        let code = dynamic_code(is_signed);
        let mut bounds: Vec<f32> = code
            .windows(2)
            .map(|two| f32::midpoint(two[0], two[1]))
            .collect();
        if !is_signed {
            // A square that is there divides, so it never becomes nothing.
            bounds[0] = 0.0;
        }
        Ok(Self {
            scales: Tensor::f_zeros([0, 1], (Kind::Float, device))?,
            code: Tensor::f_from_slice(&code)?.f_to_device(device)?,
            bounds: Tensor::f_from_slice(&bounds)?.f_to_device(device)?,
        })
    }
}

impl Short {
    /// Zeros for each of the parameters.
    pub(super) fn new(form: Form, parameters: &[Tensor], is_signed: bool) -> Result<Self> {
        let device = parameters.first().map_or(Device::Cpu, Tensor::device);
        let mut places = vec![0];
        for parameter in parameters {
            let blocks = i64::try_from(parameter.numel()).unwrap_or_default() + BLOCK - 1;
            places.push(places[places.len() - 1] + blocks / BLOCK * BLOCK);
        }
        let coded = (form == Form::Int8).then(|| Coded::new(is_signed, device));
        let length = places[places.len() - 1];
        let zeros = Tensor::f_zeros([length], (Kind::Float, device))?;
        let mut short = Self {
            places,
            values: zeros.shallow_clone(),
            coded: coded.transpose()?,
        };
        short.close(&zeros)?;
        Ok(short)
    }

    /// All values, and the tensor of each parameter within them, in its form.
    pub(super) fn open(&self, parameters: &[Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
        let kind = parameters.first().map_or(Kind::Float, Tensor::kind);
        let opened = match &self.coded {
            None => self.values.f_to_kind(kind)?,
            Some(Coded { scales, code, .. }) => {
                let shares = code.f_index_select(0, &self.values.f_to_kind(Kind::Int)?)?;
                let mut shares = shares.f_view([-1, BLOCK])?;
                shares.f_mul_(scales)?.f_view(-1)?.f_to_kind(kind)?
            }
        };
        let each = iter::zip(parameters, &self.places);
        let each = each
            .map(|(like, &place)| Ok(opened.f_as_strided(like.size(), like.stride(), place)?))
            .collect::<Result<_>>()?;
        Ok((opened, each))
    }

    /// Takes over what became of the values.
    pub(super) fn close(&mut self, values: &Tensor) -> Result<()> {
        let Some(coded) = &mut self.coded else {
            self.values = values.f_to_kind(Kind::BFloat16)?;
            return Ok(());
        };
        let rows = values.f_to_kind(Kind::Float)?.f_view([-1, BLOCK])?;
        coded.scales = rows.f_abs()?.f_amax([1].as_slice(), true)?;
        // A block of zeros has no scale, and its values are no share of it.
        let scales = coded.scales.f_clamp_min(f64::from(f32::MIN_POSITIVE))?;
        let found = rows
            .f_div(&scales)?
            .f_bucketize(&coded.bounds, true, false)?;
        self.values = found.f_to_kind(Kind::Uint8)?.f_view(-1)?;
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        nn::bytes(&self.values)
            + self
                .coded
                .as_ref()
                .map_or(0, |coded| nn::bytes(&coded.scales))
    }

    /// The share of the parameter at this place.
    pub(super) fn bytes_of(&self, place: usize) -> u64 {
        let all = self.places[self.places.len() - 1].max(1);
        let own = self.places[place + 1] - self.places[place];
        self.bytes() * own.unsigned_abs() / all.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_that_of_the_paper() {
        for is_signed in [true, false] {
            let code = dynamic_code(is_signed);
            assert_eq!(code.len(), 256);
            assert!(code.is_sorted() && code.contains(&0.0) && code.ends_with(&[1.0]));
            assert_eq!(code[0] < 0.0, is_signed);
        }
        // Two values of the lowest decade, 10⁻⁷ to 10⁻⁶, and 128 of the highest.
        let squares = dynamic_code(false);
        assert!((squares[1] - 3.25e-7).abs() < 1e-12 && (squares[2] - 7.75e-7).abs() < 1e-12);
        assert_eq!(squares.iter().filter(|&&share| share > 0.1).count(), 129);
    }

    #[test]
    fn values_come_back_nearly_and_then_for_good() {
        for (form, is_signed, most) in [
            (Form::Bf16, true, 0.004),
            (Form::Int8, true, 0.01),
            (Form::Int8, false, 0.01),
        ] {
            let like = |shape: &[i64]| Tensor::zeros(shape, (Kind::Float, Device::Cpu));
            // Of one block, of one and a part, and with dimensions that lie the other way round.
            let parameters = [like(&[3]), like(&[300]), like(&[20, 30]).transpose(0, 1)];
            let mut short = Short::new(form, &parameters, is_signed).unwrap();
            let (values, each) = short.open(&parameters).unwrap();
            assert_eq!(values.count_nonzero(None).int64_value(&[]), 0);
            let expected: Vec<Tensor> = each
                .iter()
                .map(|one| {
                    let count = i64::try_from(one.numel()).unwrap();
                    let sine = Tensor::arange(count, (Kind::Float, Device::Cpu)).sin();
                    let sine = if is_signed { sine } else { sine.square() };
                    one.shallow_clone().copy_(&(sine.view_as(one) * 1e-5));
                    one.copy()
                })
                .collect();
            short.close(&values).unwrap();
            let (values, again) = short.open(&parameters).unwrap();
            for (one, expected) in again.iter().zip(&expected) {
                assert_eq!(one.stride(), expected.stride());
                let off = (one - expected).norm() / expected.norm();
                let off = off.double_value(&[]);
                assert!(off > 0.0 && off < most, "{form:?} {is_signed}: {off}");
            }
            short.close(&values).unwrap();
            // The code has no -1, so that the largest of a block shrinks a little where it is below 0.
            let off = short.open(&parameters).unwrap().0 - &values;
            let off = (off.norm() / values.norm()).double_value(&[]);
            let is_exact = form == Form::Bf16 || !is_signed;
            assert!(
                if is_exact { off == 0.0 } else { off < 0.006 },
                "{form:?}: {off}"
            );
            let lengths = 256 + 512 + 768;
            let bytes = if form == Form::Int8 {
                lengths + lengths / 256 * 4
            } else {
                lengths * 2
            };
            assert_eq!(short.bytes(), bytes, "{form:?}");
            let parts = (0..3).map(|place| short.bytes_of(place)).sum::<u64>();
            assert_eq!(parts, bytes, "{form:?}");
        }
    }
}
