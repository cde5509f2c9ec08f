//! What a decoder keeps of the positions that it has seen.

use libtorch::Result;
use tch::{Device, Kind, Tensor};

use crate::nn;

/// Keys and values of every layer, each `[batch, heads, capacity, head width]`: one place for all
/// positions, made once, so that no step of generation copies what is there.
#[derive(Debug)]
pub struct KeyValues {
    layers: Vec<[Tensor; 2]>,
    capacity: i64,
    /// Positions that came in before the tokens at hand.
    first: i64,
    /// Positions with them.
    filled: i64,
    at: Option<At>,
}

/// Where the next token goes, known to the device alone.
#[derive(Debug)]
struct At {
    /// `[1]`, or `[batch]` where sequences are of several lengths.
    position: Tensor,
    /// `[1 or batch, 1, 1, capacity]`: what that position sees.
    mask: Option<Tensor>,
}

impl KeyValues {
    /// Room for so many positions. It is taken as the first tokens come in.
    pub fn new(capacity: u32) -> Self {
        Self {
            layers: Vec::new(),
            capacity: capacity.into(),
            first: 0,
            filled: 0,
            at: None,
        }
    }

    /// Forgets all positions, and keeps the place.
    pub fn clear(&mut self) {
        (self.first, self.filled, self.at) = (0, 0, None);
    }

    /// From now on a token comes in at a time, at the position that stands in this tensor when it
    /// does: `[1]`, or one for each sequence, `[batch]`. Every step then does the same with the same
    /// addresses, as a CUDA graph wants.
    pub fn follow(&mut self, position: &Tensor) {
        self.at = Some(At {
            position: position.shallow_clone(),
            mask: None,
        });
    }

    /// The place of one sequence, from its first position on, with memory of the whole; there once
    /// tokens of all sequences came in.
    pub fn of_sequence(&self, index: usize) -> Result<Self> {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        let of = |all: &Tensor| all.f_narrow(0, index, 1);
        let layers = self.layers.iter();
        let layers = layers.map(|[keys, values]| Ok([of(keys)?, of(values)?]));
        Ok(Self {
            layers: layers.collect::<Result<_>>()?,
            capacity: self.capacity,
            first: 0,
            filled: 0,
            at: None,
        })
    }

    /// Bytes of one position of one sequence, over all layers; 0 before the first tokens.
    pub fn bytes_per_token(&self) -> u64 {
        let all = self.layers.iter().flatten();
        let tokens = self.layers.first().map_or(1, |[keys, _]| {
            u64::try_from(keys.size()[0] * self.capacity).unwrap_or(1)
        });
        all.map(nn::bytes).sum::<u64>() / tokens
    }

    /// So many more tokens come in. Returns their positions, `[1, length]`, or `[batch, 1]` where
    /// each sequence has its own.
    pub(super) fn advance(&mut self, length: i64, device: Device) -> Result<Tensor> {
        let options = (Kind::Int64, device);
        if let Some(At { position, mask }) = &mut self.at {
            let all = Tensor::f_arange(self.capacity, options)?;
            let each = position.f_view([-1, 1, 1, 1])?;
            *mask = Some(all.f_le_tensor(&each)?);
            return Ok(position.f_view([-1, 1])?);
        }
        // Attention is causal from the first position on, or of one that sees all.
        let is_whole = self.filled == 0 || length == 1;
        if !is_whole || self.filled + length > self.capacity {
            return Err(libtorch::Error::Libtorch {
                message: format!(
                    "{length} tokens cannot come after {} in {} positions",
                    self.filled, self.capacity
                ),
            });
        }
        self.first = self.filled;
        self.filled += length;
        let positions = Tensor::f_arange_start(self.first, self.filled, options)?;
        Ok(positions.f_view([1, -1])?)
    }

    /// Which of the positions that [`Self::extend`] gives can be seen; `None`: all.
    pub(super) fn mask(&self) -> Option<&Tensor> {
        self.at.as_ref()?.mask.as_ref()
    }

    /// Takes a layer's keys and values of the tokens that came in, `[batch, heads, length, head
    /// width]`, and gives those of all positions.
    pub(super) fn extend(&mut self, layer: usize, new: [&Tensor; 2]) -> Result<[Tensor; 2]> {
        if layer == self.layers.len() {
            // Values have the type that attention computes in; under autocast keys do not.
            let options = (new[1].f_kind()?, new[1].device());
            let (batch, heads, _, width) = new[1].size4()?;
            // What a mask hides must be numbers nevertheless.
            let place = || Tensor::f_zeros([batch, heads, self.capacity, width], options);
            self.layers.push([place()?, place()?]);
        }
        let [keys, values] = &self.layers[layer];
        Ok([self.put(keys, new[0])?, self.put(values, new[1])?])
    }

    fn put(&self, place: &Tensor, new: &Tensor) -> Result<Tensor> {
        if let Some(At { position, .. }) = &self.at {
            let mut place = place.shallow_clone();
            let new = new.f_to_kind(place.f_kind()?)?;
            if position.size1()? == 1 {
                return Ok(place.f_index_copy_(2, position, &new)?);
            }
            let each = position
                .f_view([-1, 1, 1, 1])?
                .f_expand(new.size(), false)?;
            return Ok(place.f_scatter_(2, &each, &new)?);
        }
        let mut room = place.f_narrow(2, self.first, self.filled - self.first)?;
        room.f_copy_(new)?;
        Ok(place.f_narrow(2, 0, self.filled)?)
    }
}
