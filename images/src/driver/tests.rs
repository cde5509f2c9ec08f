//! Made-up layers, held against drivers.

use std::fs::{self, File};

use super::*;
use crate::slim::{CUBIN, PTX, tests::fatbin};

const TORCH: &str = "usr/lib/python3/site-packages/torch/version.py";
const CODE: &str = "usr/lib/python3/site-packages/torch/lib/libtorch_cuda.so";
const COMPAT: &str = "usr/local/cuda-12.8/compat/libcuda.so.570.86.10";
const CONF: &str = "etc/ld.so.conf.d/00-compat.conf";
const FOLDER: &[u8] = b"/usr/local/cuda-12.8/compat\n";

/// What comes of an image with these files and variables: a line a check, `-` where it does not
/// start.
fn lines(files: &[(&str, &[u8])], environment: &[&str], driver: &str, gpu: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let layer = folder.path().join("layer.tar");
    let mut archive = tar::Builder::new(File::create(&layer).unwrap());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, *content).unwrap();
    }
    archive.finish().unwrap();
    let mut layers = Layers {
        files: Filesystem::default(),
        environment: environment.iter().map(|&pair| pair.to_owned()).collect(),
    };
    let size = fs::metadata(&layer).unwrap().len();
    layers.files.add(&layer, 0, size).unwrap();
    let gpu = (!gpu.is_empty()).then(|| gpu.parse().unwrap());
    let checks = layers.check(&driver.parse().unwrap(), gpu).unwrap();
    let line = |one: &DriverCheck| {
        let sign = if one.starts { '+' } else { '-' };
        format!("{sign} {}: {}\n", one.what, one.found)
    };
    checks.iter().map(line).collect()
}

#[test]
fn a_driver_starts_the_cuda_of_its_major_version() {
    let of = |cuda: &str, driver| {
        let text = format!("cuda: Optional[str] = '{cuda}'\n");
        lines(&[(TORCH, text.as_bytes())], &[], driver, "")
    };
    insta::assert_snapshot!(of("12.4", "570"), @r"
    + CUDA: 12.4 by PyTorch; driver 570 has CUDA 12.8: starts
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of("12.8", "535.54.03"), @r"
    + CUDA: 12.8 by PyTorch; driver 535.54.3 has CUDA 12.2: starts by minor-version compatibility; what is compiled from PTX fails (error 222)
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of("13.0", "570"), @r"
    - CUDA: 13.0 by PyTorch; driver 570 has CUDA 12.8: needs driver 580.65 or newer (error 35): upgrade the driver, or take an image with an older CUDA
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of("13.0", "580"), @r"
    + CUDA: 13.0 by PyTorch; driver 580 has CUDA 13.0: starts
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of("12.4", "400"), @r"
    - CUDA: 12.4 by PyTorch; driver 400 is older than CUDA 11: needs driver 525.60 or newer (error 35): upgrade the driver, or take an image with an older CUDA
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    // Before CUDA's own: an image may have a second one.
    let second = ("usr/local/cuda/lib64/libcudart.so.13.0.96", &b""[..]);
    let both = [(TORCH, &b"cuda = '12.4'"[..]), second];
    insta::assert_snapshot!(lines(&both, &["CUDA_VERSION=13.0.1"], "570", ""), @r"
    + CUDA: 12.4 by PyTorch; driver 570 has CUDA 12.8: starts
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(lines(&[second], &[], "570", ""), @r"
    - CUDA: 13.0 by libcudart; driver 570 has CUDA 12.8: needs driver 580.65 or newer (error 35): upgrade the driver, or take an image with an older CUDA
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    let package = "a/nvidia_cuda_runtime_cu12-12.6.77.dist-info/METADATA";
    insta::assert_snapshot!(lines(&[(package, b"")], &[], "570", ""), @r"
    + CUDA: 12.6 by package of libcudart; driver 570 has CUDA 12.8: starts
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(lines(&[("bin/sh", b"")], &[], "570", ""), @"+ CUDA: none in the image, which starts on any driver, on the CPU");
}

#[test]
fn compat_libraries_before_the_drivers_want_an_older_driver() {
    let torch = (TORCH, &b"cuda = '12.8'"[..]);
    let of = |files: &[(&str, &[u8])], environment: &[&str], driver| {
        let mut all = vec![torch, (COMPAT, &b""[..])];
        all.extend(files);
        lines(&all, environment, driver, "")
    };
    let first = [(CONF, FOLDER)];
    insta::assert_snapshot!(of(&first, &[], "580"), @r"
    + CUDA: 12.8 by PyTorch; driver 580 has CUDA 13.0: starts
    - compat libraries: 570.86.10, first by /etc/ld.so.conf.d/00-compat.conf; driver 580 is no older, so CUDA does not start (error 803): take the folder out of /etc/ld.so.conf.d/00-compat.conf
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of(&first, &[], "570.86.10"), @r"
    + CUDA: 12.8 by PyTorch; driver 570.86.10 has CUDA 12.8: starts
    + compat libraries: 570.86.10, first by /etc/ld.so.conf.d/00-compat.conf; the same as the driver
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of(&first, &[], "550"), @r"
    + CUDA: 12.8 by PyTorch; driver 550 has CUDA 12.4: starts by minor-version compatibility; what is compiled from PTX fails (error 222)
    + compat libraries: 570.86.10, first by /etc/ld.so.conf.d/00-compat.conf; driver 550 is older: starts on data-centre GPUs, and not on others (error 804)
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of(&first, &[], "470"), @r"
    + CUDA: 12.8 by PyTorch; driver 470 has CUDA 11.4: starts by the image's compat libraries, on data-centre GPUs alone
    + compat libraries: 570.86.10, first by /etc/ld.so.conf.d/00-compat.conf; driver 470 is older: starts on data-centre GPUs, and not on others (error 804)
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    let path = "LD_LIBRARY_PATH=/opt/lib:/usr/local/cuda-12.8/compat";
    insta::assert_snapshot!(of(&[], &[path], "580"), @r"
    + CUDA: 12.8 by PyTorch; driver 580 has CUDA 13.0: starts
    - compat libraries: 570.86.10, first by LD_LIBRARY_PATH; driver 580 is no older, so CUDA does not start (error 803): take the folder out of LD_LIBRARY_PATH
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    let system = (
        "etc/ld.so.conf.d/00-a.conf",
        &b"/usr/lib/x86_64-linux-gnu"[..],
    );
    let later = of(&[system, (CONF, FOLDER)], &[], "580");
    assert_eq!(of(&[], &[], "580"), later);
    insta::assert_snapshot!(later, @r"
    + CUDA: 12.8 by PyTorch; driver 580 has CUDA 13.0: starts
    + compat libraries: 570.86.10 in /usr/local/cuda-12.8/compat, where the loader does not search by default
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of(&[], &[], "470"), @r"
    - CUDA: 12.8 by PyTorch; driver 470 has CUDA 11.4: needs driver 525.60 or newer (error 35): upgrade the driver, or take an image with an older CUDA
    + compat libraries: 570.86.10 in /usr/local/cuda-12.8/compat, where the loader does not search by default
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
}

#[test]
fn a_gpu_finds_its_code_or_compiles_it() {
    let code = fatbin(&[(CUBIN, 80, "a"), (CUBIN, 90, "h"), (PTX, 90, "text")]);
    let of = |cuda: &[u8], driver, gpu| lines(&[(TORCH, cuda), (CODE, &code)], &[], driver, gpu);
    let cuda = b"cuda = '12.8'";
    insta::assert_snapshot!(of(cuda, "570", ""), @r"
    + CUDA: 12.8 by PyTorch; driver 570 has CUDA 12.8: starts
    + GPU code: sm_80, sm_90, PTX of sm_90; give --gpu to learn whether yours finds its own
    ");
    insta::assert_snapshot!(of(cuda, "570", "sm_86"), @r"
    + CUDA: 12.8 by PyTorch; driver 570 has CUDA 12.8: starts
    + GPU code: sm_80, sm_90, PTX of sm_90; sm_86 finds its own
    ");
    insta::assert_snapshot!(of(cuda, "570", "sm_120"), @r"
    + CUDA: 12.8 by PyTorch; driver 570 has CUDA 12.8: starts
    + GPU code: sm_80, sm_90, PTX of sm_90; sm_120 compiles PTX of sm_90 at the first start
    ");
    insta::assert_snapshot!(of(cuda, "550", "sm_120"), @r"
    + CUDA: 12.8 by PyTorch; driver 550 has CUDA 12.4: starts by minor-version compatibility; what is compiled from PTX fails (error 222)
    - GPU code: sm_80, sm_90, PTX of sm_90; sm_120 would compile PTX of sm_90, which is newer than the driver (error 222)
    ");
    insta::assert_snapshot!(of(cuda, "570", "sm_75"), @r"
    + CUDA: 12.8 by PyTorch; driver 570 has CUDA 12.8: starts
    - GPU code: sm_80, sm_90, PTX of sm_90; nothing for sm_75 (error 209): take an image that is built for it
    ");
}

#[test]
fn what_an_image_requires_of_the_driver_is_held_against_it() {
    let of = |asked: &str, more: &str, driver| {
        let asked = format!("NVIDIA_REQUIRE_CUDA={asked}");
        lines(&[(TORCH, b"cuda = '12.8'")], &[&asked, more], driver, "")
    };
    let asked = "cuda>=12.8 brand=tesla,driver>=535,driver<536";
    insta::assert_snapshot!(of(asked, "", "570"), @r"
    + CUDA: 12.8 by PyTorch; driver 570 has CUDA 12.8: starts
    + NVIDIA_REQUIRE_CUDA: `cuda>=12.8` is met
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of(asked, "", "535"), @r"
    + CUDA: 12.8 by PyTorch; driver 535 has CUDA 12.2: starts by minor-version compatibility; what is compiled from PTX fails (error 222)
    + NVIDIA_REQUIRE_CUDA: met on some brands of GPUs alone: `brand=tesla,driver>=535,driver<536`
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    insta::assert_snapshot!(of(asked, "", "550"), @r"
    + CUDA: 12.8 by PyTorch; driver 550 has CUDA 12.4: starts by minor-version compatibility; what is compiled from PTX fails (error 222)
    - NVIDIA_REQUIRE_CUDA: not met: `cuda>=12.8 brand=tesla,driver>=535,driver<536`; the NVIDIA runtime does not start the container. Where the driver does otherwise, set NVIDIA_DISABLE_REQUIRE=1; else upgrade the driver
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    let mut found = String::new();
    for (asked, driver) in [
        ("driver<=570", "570.86"),
        ("driver<570", "570.86"),
        ("driver>570", "570.86"),
        ("driver!=570", "570.86"),
        ("driver=570", "570.86"),
        ("driver=570", "580.65"),
        ("cuda>12.8", "570.86"),
    ] {
        found.push_str(&of(asked, "", driver));
    }
    insta::assert_snapshot!(found, @r"
    + CUDA: 12.8 by PyTorch; driver 570.86 has CUDA 12.8: starts
    + NVIDIA_REQUIRE_CUDA: `driver<=570` is met
    + GPU code: not known: the image has no libtorch_cuda.so
    + CUDA: 12.8 by PyTorch; driver 570.86 has CUDA 12.8: starts
    - NVIDIA_REQUIRE_CUDA: not met: `driver<570`; the NVIDIA runtime does not start the container. Where the driver does otherwise, set NVIDIA_DISABLE_REQUIRE=1; else upgrade the driver
    + GPU code: not known: the image has no libtorch_cuda.so
    + CUDA: 12.8 by PyTorch; driver 570.86 has CUDA 12.8: starts
    - NVIDIA_REQUIRE_CUDA: not met: `driver>570`; the NVIDIA runtime does not start the container. Where the driver does otherwise, set NVIDIA_DISABLE_REQUIRE=1; else upgrade the driver
    + GPU code: not known: the image has no libtorch_cuda.so
    + CUDA: 12.8 by PyTorch; driver 570.86 has CUDA 12.8: starts
    - NVIDIA_REQUIRE_CUDA: not met: `driver!=570`; the NVIDIA runtime does not start the container. Where the driver does otherwise, set NVIDIA_DISABLE_REQUIRE=1; else upgrade the driver
    + GPU code: not known: the image has no libtorch_cuda.so
    + CUDA: 12.8 by PyTorch; driver 570.86 has CUDA 12.8: starts
    + NVIDIA_REQUIRE_CUDA: `driver=570` is met
    + GPU code: not known: the image has no libtorch_cuda.so
    + CUDA: 12.8 by PyTorch; driver 580.65 has CUDA 13.0: starts
    - NVIDIA_REQUIRE_CUDA: not met: `driver=570`; the NVIDIA runtime does not start the container. Where the driver does otherwise, set NVIDIA_DISABLE_REQUIRE=1; else upgrade the driver
    + GPU code: not known: the image has no libtorch_cuda.so
    + CUDA: 12.8 by PyTorch; driver 570.86 has CUDA 12.8: starts
    - NVIDIA_REQUIRE_CUDA: not met: `cuda>12.8`; the NVIDIA runtime does not start the container. Where the driver does otherwise, set NVIDIA_DISABLE_REQUIRE=1; else upgrade the driver
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
    let off = of(asked, "NVIDIA_DISABLE_REQUIRE=1", "550");
    insta::assert_snapshot!(off, @r"
    + CUDA: 12.8 by PyTorch; driver 550 has CUDA 12.4: starts by minor-version compatibility; what is compiled from PTX fails (error 222)
    + GPU code: not known: the image has no libtorch_cuda.so
    ");
}
