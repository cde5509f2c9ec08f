//! Tensors in shared memory: a file in `/dev/shm` that has no name, as `PyTorch`'s `file_descriptor`
//! strategy makes them, so that nothing is left behind whoever dies.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::AsRawFd as _,
};

use tch::{Device, Kind, Tensor};

use crate::Error;

const FOLDER: &str = "/dev/shm";

/// Puts a tensor's values there. Gives the file, which must stay open until the other side has it,
/// and a line that says what it is: its descriptor, the kind of its values, its shape.
pub(super) fn put(tensor: &Tensor) -> Result<(File, String), Error> {
    let kind = match tensor.kind() {
        Kind::Float => "float",
        _ => "int64",
    };
    let count = tensor.numel();
    let mut bytes = vec![0; count * tensor.kind().elt_size_in_bytes()];
    tensor.f_contiguous()?.f_copy_data_u8(&mut bytes, count)?;
    let file = write(&bytes).map_err(|source| Error::SharedMemory {
        bytes: bytes.len(),
        folder: FOLDER,
        size: size_in_words(),
        source,
    })?;
    let shape: Vec<String> = tensor.size().iter().map(i64::to_string).collect();
    let line = format!("{} {kind} {}", file.as_raw_fd(), shape.join(" "));
    Ok((file, line))
}

/// Writes rather than maps: where there is no room, that is an error here and no signal. The file
/// never has a name, so that none stays behind whenever a worker is killed.
fn write(bytes: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile_in(FOLDER)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// The tensor that another process put there, without a copy.
pub(super) fn map(process: u32, line: &str) -> Result<Tensor, Error> {
    let unknown = || Error::Pipe {
        doing: "reading an answer from",
        source: io::Error::other(format!("`{line}` is no tensor")),
    };
    let mut words = line.split(' ');
    let descriptor: u32 = words
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or_else(unknown)?;
    let kind = match words.next() {
        Some("float") => Kind::Float,
        Some("int64") => Kind::Int64,
        _ => return Err(unknown()),
    };
    let shape: Vec<i64> = words
        .map(|word| word.parse().ok().filter(|&side| side > 0))
        .collect::<Option<_>>()
        .ok_or_else(unknown)?;
    let path = format!("/proc/{process}/fd/{descriptor}");
    let count: i64 = shape.iter().product();
    let flat = Tensor::f_from_file(&path, false, count, (kind, Device::Cpu))?;
    Ok(flat.f_view(shape.as_slice())?)
}

/// ` of 64 MiB`, where the kernel tells.
fn size_in_words() -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    match size(&mounts) {
        Some(kib) => format!(" of {} MiB", kib / 1024),
        None => String::new(),
    }
}

/// The size of the shared memory in KiB: an option of its mount.
fn size(mounts: &str) -> Option<u64> {
    let options = mounts
        .lines()
        .rev()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find(|fields| fields.get(1) == Some(&FOLDER))?;
    let size = options
        .get(3)?
        .split(',')
        .find_map(|option| option.strip_prefix("size="))?;
    size.strip_suffix('k')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_what_is_mapped() {
        let images = Tensor::from_slice(&[1.5_f32, -2.0, 3.0, 0.25]).view([2, 2]);
        let tokens = Tensor::from_slice(&[7_i64, -100, 3]);
        for tensor in [images, tokens] {
            let (file, line) = put(&tensor).unwrap();
            let mapped = map(std::process::id(), &line).unwrap();
            drop(file);
            assert_eq!(mapped, tensor, "{line}");
            assert_eq!(mapped.kind(), tensor.kind());
        }
    }

    #[test]
    fn lines_that_are_no_tensor_are_named() {
        for line in [
            "",
            "3",
            "x float 1",
            "3 double 1",
            "3 float -1",
            "3 float a",
        ] {
            let error = map(1, line).unwrap_err();
            assert!(error.to_string().contains("is no tensor"), "{error}");
        }
    }

    #[test]
    fn the_size_of_the_shared_memory_reads() {
        let mounts = "proc /proc proc rw 0 0\n\
                      shm /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0\n";
        assert_eq!(size(mounts), Some(65536));
        assert_eq!(size("tmpfs /dev/shm tmpfs rw 0 0\n"), None);
        assert_eq!(size("proc /proc proc rw 0 0\n"), None);
    }
}
