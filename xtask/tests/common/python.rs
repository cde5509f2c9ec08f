//! Images with this machine's Python and a torch that is none, for tests without a network.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

pub(crate) fn run(program: &str, words: &[&str]) -> Output {
    let output = Command::new(program).args(words).output().expect(program);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}: {said}");
    output
}

pub(crate) fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::to_owned).collect()
}

/// Python and where its library lies.
pub(crate) fn python() -> (String, String) {
    let ask = "import os, sys, sysconfig\n\
               print(os.path.realpath(sys.executable))\n\
               print(sysconfig.get_path('stdlib'))";
    let told = lines(&run("python3", &["-c", ask]));
    (told[0].clone(), told[1].clone())
}

/// Makes an image with Python, and a torch of this version on its `PYTHONPATH`.
pub(crate) fn make_image(name: &str, torch: &str, settings: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let site = home.path().join("opt/site");
    fs::create_dir_all(&site).unwrap();
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/python/tests/fake/torch");
    run(
        "cp",
        &["-r", fake.to_str().unwrap(), site.to_str().unwrap()],
    );
    let init = site.join("torch/__init__.py");
    let text = fs::read_to_string(&init).unwrap();
    assert!(text.contains("2.99.0+fake"));
    fs::write(&init, text.replace("2.99.0+fake", torch)).unwrap();
    let entry =
        "import os, sys\nprint('entered', flush=True)\nos.execvp(sys.argv[1], sys.argv[1:])\n";
    fs::write(home.path().join("opt/entry.py"), entry).unwrap();

    let (python, library) = python();
    let mut parts = vec![python.clone(), library.clone()];
    let modules = fs::read_dir(Path::new(&library).join("lib-dynload")).unwrap();
    let modules = modules.map(|entry| entry.unwrap().path().display().to_string());
    let mut linked: Vec<String> = modules.collect();
    linked.push(python.clone());
    // What a Rust program needs that is to run in it.
    let own = std::env::current_exe().unwrap();
    linked.push(own.display().to_string());
    let linked: Vec<&str> = linked.iter().map(String::as_str).collect();
    for line in lines(&run("ldd", &linked)) {
        let mut words = line.split_whitespace().filter(|word| word.starts_with('/'));
        if let Some(path) = words.next().filter(|path| !path.ends_with(':')) {
            parts.push(path.to_owned());
        }
    }
    parts.sort();
    parts.dedup();
    let archive = home.path().join("image.tar");
    let archive = archive.to_str().unwrap();
    let mut tar = vec!["-c", "-f", archive, "--dereference", "--hard-dereference"];
    tar.extend([
        "--exclude=site-packages",
        "--exclude=test",
        "--exclude=__pycache__",
    ]);
    tar.extend(["--exclude=config-3*", "-C", "/"]);
    tar.extend(parts.iter().map(|part| part.trim_start_matches('/')));
    tar.extend(["-C", home.path().to_str().unwrap(), "opt"]);
    run("tar", &tar);
    let folder = Path::new(&python).parent().unwrap().display();
    let mut all = vec![
        format!("ENV PATH={folder}:/usr/bin"),
        "ENV PYTHONPATH=/opt/site".to_owned(),
        "USER 1000:1000".to_owned(),
        "WORKDIR /opt".to_owned(),
        "VOLUME /data".to_owned(),
        format!("ENTRYPOINT [\"{python}\", \"/opt/entry.py\"]"),
    ];
    all.extend(settings.iter().map(|&setting| setting.to_owned()));
    let mut import = vec!["import"];
    import.extend(all.iter().flat_map(|setting| ["--change", setting]));
    import.extend([archive, name]);
    run("docker", &import);
}
