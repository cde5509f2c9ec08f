//! Which ways of giving a container a GPU can work, on machines made of files.

use std::{fs, os::unix::fs::symlink, path::Path};

use engine::{EngineFacts, GpuAccess, GpuHost, GpuPath, Product, gpu::candidates};

/// A machine made of files: device nodes, `/proc` and driver libraries.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(self, files: &[&str]) -> Self {
        for file in files {
            self.write(file, "");
        }
        self
    }

    fn with_driver_nodes(self) -> Self {
        self.with(&[
            "dev/nvidiactl",
            "dev/nvidia-uvm",
            "dev/nvidia-uvm-tools",
            "dev/null",
        ])
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn host(&self) -> GpuHost {
        GpuHost::under(self.0.path())
    }

    fn strip(&self, path: &Path) -> String {
        let root = fs::canonicalize(self.0.path()).unwrap();
        let below = path
            .strip_prefix(self.0.path())
            .or_else(|_| path.strip_prefix(root));
        format!("/{}", below.unwrap().display())
    }
}

fn engine(product: Product, version: &str) -> EngineFacts {
    EngineFacts {
        product,
        version: version.to_owned(),
        endpoint: "unix:///var/run/docker.sock".to_owned(),
        storage_driver: None,
        runtimes: vec!["runc".to_owned()],
        cdi_spec_folders: Vec::new(),
        data_folder: None,
        machine: None,
        kernel: None,
    }
}

fn check(engine: &EngineFacts, host: &GpuHost, expect: [(GpuPath, Option<&str>); 3]) {
    let found = candidates(engine, host);
    for (candidate, (path, obstacle)) in found.iter().zip(expect) {
        assert_eq!(candidate.path, path, "{found:#?}");
        match (&candidate.obstacle, obstacle) {
            (None, None) => {}
            (Some(found), Some(expect)) if found.contains(expect) => {}
            (found, expect) => panic!("{path}: {found:?}, expected {expect:?}"),
        }
    }
}

#[test]
fn without_a_gpu_every_path_says_so() {
    let host = Machine::new().host();
    let none = Some("no NVIDIA GPU on this machine");
    check(
        &engine(Product::Docker, "28.2.0"),
        &host,
        [
            (GpuPath::Cdi, none),
            (GpuPath::NvidiaRuntime, none),
            (GpuPath::Passthrough, none),
        ],
    );
}

#[test]
fn an_engine_that_is_too_old_or_ignores_requests_is_told_apart() {
    let machine = Machine::new()
        .with_driver_nodes()
        .with(&["dev/nvidia0", "usr/local/nvidia/lib64/libcuda.so.1"]);
    let host = machine.host();
    check(
        &engine(Product::Docker, "20.10.24+dfsg1"),
        &host,
        [
            (GpuPath::Passthrough, None),
            (
                GpuPath::Cdi,
                Some("Docker 20.10.24+dfsg1 does not serve CDI requests; Docker 28.2"),
            ),
            (GpuPath::NvidiaRuntime, Some("nvidia-ctk runtime configure")),
        ],
    );
    check(
        &engine(Product::Podman, "4.3.1"),
        &host,
        [
            (GpuPath::Passthrough, None),
            (
                GpuPath::Cdi,
                Some("Podman 4.3.1 does not serve CDI requests; Podman 5.4"),
            ),
            (GpuPath::NvidiaRuntime, Some("Podman ignores")),
        ],
    );
}

#[test]
fn cdi_needs_the_switch_and_a_spec() {
    let machine = Machine::new().with(&["dev/nvidia0"]);
    let mut docker = engine(Product::Docker, "28.2.1");
    docker.runtimes.push("nvidia".to_owned());
    let no_nodes = Some("/dev/nvidiactl is missing");
    let check_cdi = |docker: &EngineFacts, machine: &Machine, expect: &str| {
        check(
            docker,
            &machine.host(),
            [
                (GpuPath::NvidiaRuntime, None),
                (GpuPath::Cdi, Some(expect)),
                (GpuPath::Passthrough, no_nodes),
            ],
        );
    };
    check_cdi(&docker, &machine, "CDI is switched off");
    let folder = machine.0.path().join("etc/cdi");
    docker.cdi_spec_folders = vec![folder.to_string_lossy().into_owned()];
    check_cdi(&docker, &machine, "nvidia-ctk cdi generate");
    machine.write("etc/cdi/other.yaml", "kind: intel.com/gpu");
    check_cdi(&docker, &machine, "nvidia-ctk cdi generate");
    machine.write(
        "etc/cdi/nvidia.yaml",
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n",
    );
    check(
        &docker,
        &machine.host(),
        [
            (GpuPath::Cdi, None),
            (GpuPath::NvidiaRuntime, None),
            (GpuPath::Passthrough, no_nodes),
        ],
    );
}

#[test]
fn passthrough_names_what_is_missing() {
    let missing = |machine: &Machine| {
        let all = candidates(&engine(Product::Docker, "20.10"), &machine.host());
        let one = all
            .into_iter()
            .find(|one| one.path == GpuPath::Passthrough)
            .unwrap();
        one.obstacle.unwrap()
    };
    let machine = Machine::new().with(&["dev/nvidia0", "dev/nvidiactl"]);
    assert!(missing(&machine).contains("/dev/nvidia-uvm is missing"));
    let machine = machine.with(&["dev/nvidia-uvm"]);
    assert!(missing(&machine).contains("libcuda.so.1"));
}

#[test]
fn a_folder_of_the_drivers_own_is_mounted_where_it_is() {
    let machine = Machine::new().with_driver_nodes().with(&[
        "dev/nvidia0",
        "dev/nvidia1",
        "usr/local/nvidia/lib64/libcuda.so.1",
        "usr/local/nvidia/bin/nvidia-smi",
    ]);
    let docker = engine(Product::Docker, "20.10.24");
    let access = GpuAccess::resolve(&docker, &machine.host(), GpuPath::Passthrough, 1).unwrap();
    let devices: Vec<String> = access
        .devices
        .iter()
        .map(|path| machine.strip(path))
        .collect();
    assert_eq!(
        devices,
        [
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
            "/dev/nvidia-uvm-tools",
            "/dev/nvidia1"
        ]
    );
    assert_eq!(access.mounts.len(), 1);
    assert_eq!(machine.strip(&access.mounts[0].source), "/usr/local/nvidia");
    assert_eq!(Path::new(&access.mounts[0].target), access.mounts[0].source);
    assert!(access.mounts[0].read_only);
    let libraries = machine.0.path().join("usr/local/nvidia/lib64");
    let libraries = libraries.to_str().unwrap();
    assert_eq!(access.library_path(None).unwrap(), libraries);
    assert_eq!(
        access.library_path(Some("/opt/lib")).unwrap(),
        format!("{libraries}:/opt/lib")
    );

    let error = GpuAccess::resolve(&docker, &machine.host(), GpuPath::Passthrough, 2).unwrap_err();
    assert!(
        error.to_string().contains("this machine has 2 (0 to 1)"),
        "{error}"
    );
    let error = GpuAccess::resolve(&docker, &machine.host(), GpuPath::Cdi, 0).unwrap_err();
    assert!(error.to_string().contains("does not serve CDI"), "{error}");
}

#[test]
fn a_distributions_folder_gives_the_drivers_files_alone() {
    let folder = "usr/lib/x86_64-linux-gnu";
    let machine = Machine::new().with_driver_nodes().with(&[
        "dev/nvidia0",
        &format!("{folder}/libcuda.so.580.1"),
        &format!("{folder}/libnvidia-ml.so.580.1"),
        &format!("{folder}/libnvidia-nvvm.so.580.1"),
        &format!("{folder}/libnvidia-glcore.so.580.1"),
        &format!("{folder}/libc.so.6"),
    ]);
    let at = |name: &str| machine.0.path().join(folder).join(name);
    symlink("libcuda.so.580.1", at("libcuda.so.1")).unwrap();
    symlink("libnvidia-ml.so.580.1", at("libnvidia-ml.so.1")).unwrap();
    symlink("gone", at("libnvidia-cfg.so.1")).unwrap();
    let docker = engine(Product::Docker, "20.10.24");
    let access = GpuAccess::resolve(&docker, &machine.host(), GpuPath::Passthrough, 0).unwrap();
    let mounts: Vec<String> = access
        .mounts
        .iter()
        .map(|mount| format!("{} -> {}", machine.strip(&mount.source), mount.target))
        .collect();
    let target = "/usr/local/nvidia/lib64";
    assert_eq!(
        mounts,
        [
            format!("/{folder}/libcuda.so.580.1 -> {target}/libcuda.so.1"),
            format!("/{folder}/libcuda.so.580.1 -> {target}/libcuda.so.580.1"),
            format!("/{folder}/libnvidia-ml.so.580.1 -> {target}/libnvidia-ml.so.1"),
            format!("/{folder}/libnvidia-ml.so.580.1 -> {target}/libnvidia-ml.so.580.1"),
            format!("/{folder}/libnvidia-nvvm.so.580.1 -> {target}/libnvidia-nvvm.so.580.1"),
        ]
    );
    assert_eq!(access.library_folders, [target]);
}

#[test]
fn indices_follow_the_bus_and_not_the_device_file() {
    let machine = Machine::new().with(&["dev/nvidia0", "dev/nvidia1", "dev/nvidia3"]);
    for (bus, minor) in [
        ("0000:1b:00.0", 3),
        ("0000:43:00.0", 0),
        ("0000:52:00.0", 1),
        ("0000:61:00.0", 2),
    ] {
        machine.write(
            &format!("proc/driver/nvidia/gpus/{bus}/information"),
            &format!("Model: \t\t NVIDIA H200\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"),
        );
    }
    let nodes: Vec<String> = machine
        .host()
        .devices
        .iter()
        .map(|device| machine.strip(device))
        .collect();
    // Minor 2 is not handed out to this machine.
    assert_eq!(nodes, ["/dev/nvidia3", "/dev/nvidia0", "/dev/nvidia1"]);
}
