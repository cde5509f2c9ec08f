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

#[track_caller]
fn check(found: &str, expected: &[&str]) {
    for part in expected {
        assert!(found.contains(part), "no `{part}` in\n{found}");
    }
}

#[test]
fn a_driver_starts_the_cuda_of_its_major_version() {
    let of = |cuda: &str, driver| {
        let text = format!("cuda: Optional[str] = '{cuda}'\n");
        lines(&[(TORCH, text.as_bytes())], &[], driver, "")
    };
    check(
        &of("12.4", "570"),
        &["+ CUDA: 12.4 by PyTorch; driver 570 has CUDA 12.8: starts\n"],
    );
    check(
        &of("12.8", "535.54.03"),
        &["+ CUDA", "has CUDA 12.2", "minor-version", "222"],
    );
    check(
        &of("13.0", "570"),
        &["- CUDA", "driver 580.65 or newer (error 35)"],
    );
    check(&of("13.0", "580"), &["+ CUDA"]);
    check(
        &of("12.4", "400"),
        &["- CUDA", "older than CUDA 11", "525.60"],
    );
    // Before CUDA's own: an image may have a second one.
    let second = ("usr/local/cuda/lib64/libcudart.so.13.0.96", &b""[..]);
    let both = [(TORCH, &b"cuda = '12.4'"[..]), second];
    check(
        &lines(&both, &["CUDA_VERSION=13.0.1"], "570", ""),
        &["+ CUDA: 12.4"],
    );
    check(
        &lines(&[second], &[], "570", ""),
        &["- CUDA: 13.0 by libcudart"],
    );
    let package = "a/nvidia_cuda_runtime_cu12-12.6.77.dist-info/METADATA";
    check(
        &lines(&[(package, b"")], &[], "570", ""),
        &["CUDA: 12.6 by package"],
    );
    check(
        &lines(&[("bin/sh", b"")], &[], "570", ""),
        &["+ CUDA: none"],
    );
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
    check(
        &of(&first, &[], "580"),
        &["- compat", "570.86.10, first by /etc", "error 803"],
    );
    check(&of(&first, &[], "570.86.10"), &["+ compat", "the same"]);
    check(&of(&first, &[], "550"), &["+ compat", "error 804"]);
    check(
        &of(&first, &[], "470"),
        &["+ CUDA", "by the image's compat libraries"],
    );
    let path = "LD_LIBRARY_PATH=/opt/lib:/usr/local/cuda-12.8/compat";
    check(
        &of(&[], &[path], "580"),
        &["- compat", "by LD_LIBRARY_PATH"],
    );
    let system = (
        "etc/ld.so.conf.d/00-a.conf",
        &b"/usr/lib/x86_64-linux-gnu"[..],
    );
    for files in [&[][..], &[system, (CONF, FOLDER)]] {
        let found = of(files, &[], "580");
        check(
            &found,
            &[
                "+ compat",
                "in /usr/local/cuda-12.8/compat, where the loader",
            ],
        );
    }
    check(&of(&[], &[], "470"), &["- CUDA"]);
}

#[test]
fn a_gpu_finds_its_code_or_compiles_it() {
    let code = fatbin(&[(CUBIN, 80, "a"), (CUBIN, 90, "h"), (PTX, 90, "text")]);
    let of = |cuda: &[u8], driver, gpu| lines(&[(TORCH, cuda), (CODE, &code)], &[], driver, gpu);
    let cuda = b"cuda = '12.8'";
    check(
        &of(cuda, "570", ""),
        &["+ GPU code: sm_80, sm_90, PTX of sm_90; give --gpu"],
    );
    check(
        &of(cuda, "570", "sm_86"),
        &["+ GPU code", "sm_86 finds its own"],
    );
    check(
        &of(cuda, "570", "sm_120"),
        &["+ GPU code", "compiles PTX of sm_90"],
    );
    check(&of(cuda, "550", "sm_120"), &["- GPU code", "error 222"]);
    check(
        &of(cuda, "570", "sm_75"),
        &["- GPU code", "nothing for sm_75 (error 209)"],
    );
}

#[test]
fn what_an_image_requires_of_the_driver_is_held_against_it() {
    let of = |asked: &str, more: &str, driver| {
        let asked = format!("NVIDIA_REQUIRE_CUDA={asked}");
        lines(&[(TORCH, b"cuda = '12.8'")], &[&asked, more], driver, "")
    };
    let asked = "cuda>=12.8 brand=tesla,driver>=535,driver<536";
    check(
        &of(asked, "", "570"),
        &["+ NVIDIA_REQUIRE_CUDA: `cuda>=12.8` is met"],
    );
    check(
        &of(asked, "", "535"),
        &["+ NVIDIA_REQUIRE_CUDA: met on some brands"],
    );
    check(&of(asked, "", "550"), &["- NVIDIA_REQUIRE_CUDA: not met"]);
    for (asked, driver, sign) in [
        ("driver<=570", "570.86", '+'),
        ("driver<570", "570.86", '-'),
        ("driver>570", "570.86", '-'),
        ("driver!=570", "570.86", '-'),
        ("driver=570", "570.86", '+'),
        ("driver=570", "580.65", '-'),
        ("cuda>12.8", "570.86", '-'),
    ] {
        let expect = format!("{sign} NVIDIA_REQUIRE_CUDA");
        check(&of(asked, "", driver), &[&expect]);
    }
    let off = of(asked, "NVIDIA_DISABLE_REQUIRE=1", "550");
    assert!(!off.contains("NVIDIA_REQUIRE"), "{off}");
}
