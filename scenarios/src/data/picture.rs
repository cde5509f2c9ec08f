//! One image of a folder: made as a JPEG, and read as a training step wants it.

use image::{ExtendedColorType, ImageFormat, codecs::jpeg::JpegEncoder};
use tch::Tensor;

use super::random::Stream;

/// Width and height: those of most images of `ImageNet`.
const SIZE: [usize; 2] = [500, 375];
/// Cells of colour across and down, between which the colour passes evenly.
const CELLS: [usize; 2] = [12, 9];
/// With this noise and quality a file has some 110,000 bytes, as `ImageNet`'s have on average.
const NOISE: f32 = 8.5;
const QUALITY: u8 = 90;
/// What ends every JPEG.
const END: [u8; 2] = [0xff, 0xd9];

/// Mean and deviation of `ImageNet`'s channels, by which torchvision's references normalise.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// Draws an image, as the bytes of its file.
pub(super) fn draw(stream: &mut Stream) -> Result<Vec<u8>, image::ImageError> {
    let [width, height] = SIZE;
    let across = CELLS[0] + 1;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a colour is single precision"
    )]
    let colours: Vec<[f32; 3]> = (0..across * (CELLS[1] + 1))
        .map(|_| [0; 3].map(|_| 255.0 * stream.uniform() as f32))
        .collect();
    let mut noise = vec![0.0; 3 * width];
    let mut pixels = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        stream.normal(&mut noise);
        let (row, down) = cell(y, height, CELLS[1]);
        for (x, noise) in noise.chunks_exact(3).enumerate() {
            let (column, right) = cell(x, width, CELLS[0]);
            let first = row * across + column;
            for channel in 0..3 {
                let at = |cell: usize| colours[cell][channel];
                let mix = |from: usize| at(from) + (at(from + 1) - at(from)) * right;
                let (above, below) = (mix(first), mix(first + across));
                let value = above + (below - above) * down + NOISE * noise[channel];
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "within 0 to 255"
                )]
                pixels.push(value.clamp(0.0, 255.0) as u8);
            }
        }
    }
    let mut file = Vec::new();
    let (width, height) = (500, 375);
    JpegEncoder::new_with_quality(&mut file, QUALITY).encode(
        &pixels,
        width,
        height,
        ExtendedColorType::Rgb8,
    )?;
    Ok(file)
}

/// The cell that a pixel of so many lies in, and how far into it.
fn cell(pixel: usize, of: usize, cells: usize) -> (usize, f32) {
    let place = pixel * cells;
    (place / of, (place % of) as f32 / of as f32)
}

/// Reads the bytes of a file into `[3, size, size]` single precision, as torchvision's references
/// train on it: a random part, resized bilinearly and with antialiasing, flipped or not, normalised.
pub(super) fn read(file: &[u8], stream: &mut Stream, into: &mut Tensor) -> Result<(), String> {
    // A decoder fills up what is missing.
    if !file.ends_with(&END) {
        return Err("it ends before its end marker".to_owned());
    }
    let decoded = image::load_from_memory_with_format(file, ImageFormat::Jpeg);
    let picture = decoded.map_err(|error| error.to_string())?.into_rgb8();
    let (width, height) = (picture.width().into(), picture.height().into());
    let crop = Crop::draw(stream, width, height);
    augment(picture.as_raw(), [height, width], crop, into).map_err(|error| error.to_string())
}

fn augment(
    pixels: &[u8],
    [height, width]: [i64; 2],
    crop: Crop,
    into: &mut Tensor,
) -> Result<(), tch::TchError> {
    let size = into.size()[1];
    let per_channel = |values: [f32; 3]| Tensor::f_from_slice(&values)?.f_view([3, 1, 1]);
    let scale = per_channel(DEVIATION.map(|deviation| 1.0 / (255.0 * deviation)))?;
    let shift = per_channel([0, 1, 2].map(|channel: usize| -MEAN[channel] / DEVIATION[channel]))?;
    let image = Tensor::f_from_slice(pixels)?
        .f_view([1, height, width, 3])?
        .f_permute([0, 3, 1, 2])?
        .f_narrow(2, crop.top, crop.height)?
        .f_narrow(3, crop.left, crop.width)?
        .f_internal_upsample_bilinear2d_aa([size, size], false, None, None)?
        .f_squeeze_dim(0)?;
    let image = if crop.is_flipped {
        image.f_flip([2])?
    } else {
        image
    };
    into.f_copy_(&image)?;
    let _ = into.f_mul_(&scale)?.f_add_(&shift)?;
    Ok(())
}

/// A part of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Crop {
    top: i64,
    left: i64,
    height: i64,
    width: i64,
    is_flipped: bool,
}

impl Crop {
    /// As torchvision's `RandomResizedCrop` and `RandomHorizontalFlip`: 8 % of the area to all of
    /// it, sides of 3 to 4 up to 4 to 3; where ten draws do not fit, all of the image.
    fn draw(stream: &mut Stream, width: i64, height: i64) -> Self {
        let mut crop = Self {
            top: 0,
            left: 0,
            height,
            width,
            is_flipped: stream.uniform() < 0.5,
        };
        let area = (width * height) as f64;
        let widest = (4.0_f64 / 3.0).ln();
        #[expect(clippy::cast_possible_truncation, reason = "a side of an image")]
        let side = |square: f64| square.sqrt().round() as i64;
        for _ in 0..10 {
            let target = area * (0.08 + 0.92 * stream.uniform());
            let ratio = (widest * (2.0 * stream.uniform() - 1.0)).exp();
            let (wide, high) = (side(target * ratio), side(target / ratio));
            if (1..=width).contains(&wide) && (1..=height).contains(&high) {
                let mut within = |room: i64| {
                    let place = stream.below(room.unsigned_abs() + 1);
                    i64::try_from(place).unwrap_or_default()
                };
                (crop.top, crop.left) = (within(height - high), within(width - wide));
                (crop.height, crop.width) = (high, wide);
                break;
            }
        }
        crop
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::{super::random::Purpose, *};

    fn stream(sample: u64) -> Stream {
        Stream::new(1, Purpose::Pictures, sample)
    }

    #[test]
    fn files_are_as_large_as_imagenet_s_and_no_two_are_the_same() {
        let files: Vec<Vec<u8>> = (0..8)
            .map(|sample| draw(&mut stream(sample)).unwrap())
            .collect();
        assert_ne!(files[0], files[1]);
        assert_eq!(files[0], draw(&mut stream(0)).unwrap());
        let mean = files.iter().map(Vec::len).sum::<usize>() / files.len();
        assert!((100_000..125_000).contains(&mean), "{mean}");
    }

    #[test]
    fn a_picture_is_read_normalised() {
        // Even grey: whatever is cut out of it.
        let mut file = Vec::new();
        JpegEncoder::new_with_quality(&mut file, 95)
            .encode(&[128; 3 * 40 * 30], 40, 30, ExtendedColorType::Rgb8)
            .unwrap();
        let mut into = Tensor::empty([3, 8, 8], (Kind::Float, Device::Cpu));
        read(&file, &mut stream(3), &mut into).unwrap();
        for channel in 0..3 {
            let expected = (128.0 / 255.0 - MEAN[channel]) / DEVIATION[channel];
            let values = into.select(0, i64::try_from(channel).unwrap());
            for value in [values.max(), values.min()] {
                let value = f32::try_from(&value).unwrap();
                assert!((value - expected).abs() < 0.02, "{value} {expected}");
            }
        }
    }

    #[test]
    fn what_is_no_whole_jpeg_is_refused() {
        let whole = draw(&mut stream(0)).unwrap();
        let mut damaged = whole.clone();
        damaged[2..40].fill(0);
        for (file, words) in [
            (&whole[..whole.len() / 2], "ends before its end marker"),
            (&[][..], "ends before its end marker"),
            (&damaged[..], ""),
        ] {
            let mut into = Tensor::empty([3, 8, 8], (Kind::Float, Device::Cpu));
            let error = read(file, &mut stream(3), &mut into).unwrap_err();
            assert!(!error.is_empty() && error.contains(words), "{error}");
        }
    }

    #[test]
    fn crops_lie_within_and_have_the_sizes_that_torchvision_draws() {
        let mut draws = stream(5);
        let (mut shares, mut flipped) = (0.0, 0);
        for _ in 0..10_000 {
            let crop = Crop::draw(&mut draws, 500, 375);
            assert!(crop.top >= 0 && crop.top + crop.height <= 375, "{crop:?}");
            assert!(crop.left >= 0 && crop.left + crop.width <= 500, "{crop:?}");
            shares += (crop.width * crop.height) as f64 / (500.0 * 375.0);
            flipped += i32::from(crop.is_flipped);
        }
        // The loop of `RandomResizedCrop.get_params` in Python, 200,000 draws: 0.4328. The standard
        // error of 10,000 is 0.0024.
        assert!((shares / 1e4 - 0.433).abs() < 0.01, "{}", shares / 1e4);
        assert!((f64::from(flipped) / 1e4 - 0.5).abs() < 0.025, "{flipped}");
        let narrow = Crop::draw(&mut draws, 1, 1000);
        assert_eq!((narrow.width, narrow.height <= 1000), (1, true));
    }
}
