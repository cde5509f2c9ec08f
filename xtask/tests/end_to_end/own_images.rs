//! Images as people have them: PyTorch as pip installs it, in a virtual environment, in conda's
//! folders, and beside the system's Python with the toolkit of CUDA.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use record::Outcome;

use crate::{Home, expect_exit, read, text, xtask};

/// The wheels that libtorch without its CUDA half needs; all of CUDA would be 3 GB more.
const WHEELS: [&str; 3] = [
    "torch==2.11.0",
    "nvidia-cuda-cupti==13.0.85",
    "nvidia-cuda-runtime==13.0.96",
];
const IMAGES: [Layout; 3] = [
    Layout {
        name: "own-venv",
        // What is left of a path below the folder that pip filled, by sed's rules.
        moves: &["s,^,opt/venv/lib/python3.11/site-packages/,"],
        settings: &[
            "USER 1000",
            "WORKDIR /workspace",
            "ENTRYPOINT [\"/no/entrypoint.sh\"]",
            "ENV LD_LIBRARY_PATH=/opt/venv/lib",
        ],
        extra: "",
    },
    Layout {
        name: "own-conda",
        moves: &[
            "s,^nvidia/cu13/lib,opt/conda/lib,",
            "s,^\\(torch\\|nvidia\\),opt/conda/lib/python3.11/site-packages/\\1,",
        ],
        settings: &[
            "ENV PATH=/opt/conda/bin:/usr/bin:/bin",
            "ENV LD_PRELOAD=/opt/conda/lib/libcudart.so.13",
        ],
        extra: "allow: [LD_PRELOAD]\n",
    },
    Layout {
        name: "own-system",
        moves: &[
            "s,^nvidia/cu13/lib/libcupti,usr/local/cuda/extras/CUPTI/lib64/libcupti,",
            "s,^nvidia/cu13/lib,usr/local/cuda/lib64,",
            "s,^\\(torch\\|nvidia\\),usr/local/lib/python3.11/dist-packages/\\1,",
        ],
        settings: &[
            "ENTRYPOINT [\"/opt/nvidia/nvidia_entrypoint.sh\"]",
            // Where nothing else has the loader look, and written as `…:$LD_LIBRARY_PATH` comes out.
            "ENV LD_LIBRARY_PATH=/usr/local/cuda/extras/CUPTI/lib64:",
        ],
        extra: "",
    },
];

struct Layout {
    name: &'static str,
    moves: &'static [&'static str],
    settings: &'static [&'static str],
    extra: &'static str,
}

impl Layout {
    fn reference(&self) -> String {
        format!("torchgauge-test/{}:1", self.name)
    }

    /// Makes the image, and a spec of it.
    fn make(&self, home: &Home, site: &Path) {
        let archive = home.path("image.tar");
        fs::copy(home.path("base.tar"), &archive).expect("the base");
        let moves = self.moves.iter().flat_map(|by| ["--transform", by]);
        let mut tar = vec!["--append", "-f", text(&archive), "-C", text(site)];
        tar.extend(moves);
        let names = fs::read_dir(site).expect("what pip brought");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let names: Vec<String> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        let brought = names.iter().map(String::as_str);
        tar.extend(brought.filter(|name| name.starts_with("torch") || name.starts_with("nvidia")));
        run("tar", &tar);
        let settings = self.settings.iter().flat_map(|set| ["--change", set]);
        let mut import = vec!["import"];
        import.extend(settings);
        let reference = self.reference();
        import.extend([text(&archive), &reference]);
        let imported = run("docker", &import);
        let id = String::from_utf8_lossy(&imported.stdout);
        let repository = reference.trim_end_matches(":1");
        self.write_spec(home, &format!("{repository}@{}", id.trim()), self.extra);
    }

    fn write_spec(&self, home: &Home, base: &str, extra: &str) {
        let spec = format!(
            "version: 2\ndescription: for a test\nbase: {{image: '{base}'}}\n{extra}\
             libtorch: {{inside: auto, flavour: cpu}}\n"
        );
        fs::write(self.spec(home), spec).expect("the spec");
    }

    fn spec(&self, home: &Home) -> String {
        text(&home.path(&format!("{}.yaml", self.name))).to_owned()
    }
}

fn run(program: &str, words: &[&str]) -> Output {
    let output = Command::new(program).args(words).output().expect(program);
    expect_exit(&output, 0);
    output
}

/// PyTorch as pip installs it, less its CUDA half, as in the wheels for the CPU.
fn install(site: &Path) {
    let mut pip = vec![
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
    ];
    pip.extend(["--target", text(site)]);
    pip.extend(WHEELS);
    run("python3", &pip);
    let lib = site.join("torch/lib");
    let files = fs::read_dir(&lib).expect("torch's libraries");
    for file in files.map(|file| file.expect("a file").path()) {
        let name = file.file_name().expect("a name").to_string_lossy();
        if name.contains("cuda") || name.contains("nvshmem") {
            fs::remove_file(&file).expect("one of CUDA less");
        }
    }
}

#[test]
fn pytorch_runs_where_people_have_it() {
    let _cores = crate::beside_others();
    let home = Home::new();
    let base = home.path("base.tar");
    expect_exit(&xtask(&["images", "base", "--to", text(&base)]), 0);
    let site = home.path("site");
    install(&site);
    for image in &IMAGES {
        image.make(&home, &site);
    }

    let out = home.path("session");
    let specs = IMAGES.each_ref().map(|image| image.spec(&home));
    let mut words = vec!["bench", "--suite", "smoke", "--device", "cpu"];
    words.extend([
        "--engine",
        "container",
        "--blocks",
        "1",
        "--out",
        text(&out),
    ]);
    words.extend(specs.iter().flat_map(|spec| ["--image", spec]));
    expect_exit(&xtask(&words), 0);
    let (session, records) = read(&out);
    assert_eq!(records.len(), session.cells.len());
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok, "{}", record.run);
    }
    // Where PyTorch lies changes nothing of what it does.
    let peak = |record: &record::Record| {
        let peak = record.value("peak_allocated_bytes").expect("a peak");
        (record.axes.to_string(), peak.to_bits())
    };
    let of = |image: &Layout| -> Vec<_> {
        let mut peaks: Vec<_> = records
            .iter()
            .filter(|record| record.image == image.name)
            .map(|record| (record.scenario.clone(), peak(record)))
            .map(|(scenario, (variant, peak))| (format!("{scenario} {variant}"), peak))
            .collect();
        peaks.sort();
        peaks
    };
    assert!(of(&IMAGES[0]).len() > 4);
    for image in &IMAGES[1..] {
        assert_eq!(of(&IMAGES[0]), of(image), "{}", image.name);
    }
    for image in &session.images {
        assert_eq!(image.libtorch_version, "2.11.0", "{}", image.name);
        let parts = image.parts.as_ref().expect("what it is made of");
        let torch = parts
            .packages
            .iter()
            .find(|(name, _)| name.ends_with("torch"));
        assert!(torch.is_some(), "{:?}", parts.packages);
    }

    // What would change what is measured is not let in unsaid.
    let spec = fs::read_to_string(IMAGES[1].spec(&home)).expect("the spec");
    let spec = spec.replace(IMAGES[1].extra, "");
    let unsaid = home.path("unsaid.yaml");
    fs::write(&unsaid, spec).expect("a spec");
    let refused = xtask(&["images", "build", text(&unsaid)]);
    expect_exit(&refused, 2);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("LD_PRELOAD"), "{said}");

    for image in &IMAGES {
        expect_exit(&xtask(&["images", "prune", image.name]), 0);
        run("docker", &["image", "rm", &image.reference()]);
    }
}
