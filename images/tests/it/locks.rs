//! What a lock holds a build to.

use std::fs;

use images::{LockUse, Sources, write_missing_lock};
use record::ImageLock;

use crate::world::{SPEC, World, says};

#[test]
fn a_locked_image_comes_out_as_locked() {
    let world = World::new("locked");
    let first = world.assemble().unwrap();
    assert_eq!(first.facts.lock, Some(ImageLock::Unlocked));
    first
        .lock
        .write(&world.read().unwrap().lock_file())
        .unwrap();
    let second = world.assemble_with(LockUse::Required).unwrap();
    assert_eq!(second.facts.lock, Some(ImageLock::Matches));
    assert_eq!(first.config_id, second.config_id);
}

#[test]
fn without_a_lock_none_can_be_required() {
    let error = World::new("lockless")
        .assemble_with(LockUse::Required)
        .unwrap_err();
    says(&error, &["lockless has no lock", "images lock lockless"]);
}

#[test]
fn a_lock_that_a_build_writes_is_the_one_it_stands_to() {
    for (name, binary_given) in [("first-build", false), ("first-build-given", true)] {
        let world = World::new(name);
        let mut first = world.assemble().unwrap();
        let mut sources = Sources {
            libtorch: None,
            ..world.sources()
        };
        if !binary_given {
            sources.scenario_binary = None;
        }
        let image = world.read().unwrap();
        let file = write_missing_lock(&image, &sources, &mut first).unwrap();
        assert_eq!(file, Some(image.lock_file()));
        assert_eq!(first.facts.lock, world.assemble().unwrap().facts.lock);
        assert_eq!(first.facts.lock == Some(ImageLock::Matches), !binary_given);
        let image = world.read().unwrap();
        assert_eq!(
            write_missing_lock(&image, &sources, &mut first).unwrap(),
            None
        );
    }
}

#[test]
fn another_scenario_is_said_and_fine() {
    let world = World::new("other-scenario");
    let first = world.assemble().unwrap();
    first
        .lock
        .write(&world.read().unwrap().lock_file())
        .unwrap();
    world.program("int torch_answer(void); int main(void) { return torch_answer(); }");
    let second = world.assemble_with(LockUse::Required).unwrap();
    let Some(ImageLock::OtherScenario { cause: why }) = second.facts.lock else {
        panic!("{:?}", second.facts.lock)
    };
    assert!(why.contains("given, not compiled"), "{why}");
}

#[test]
fn another_library_is_refused_with_both_digests() {
    let world = World::new("other-library");
    let first = world.assemble().unwrap();
    first
        .lock
        .write(&world.read().unwrap().lock_file())
        .unwrap();
    world.library("libc10.so", "int c10_answer(void) { return 6; }", &[]);
    let error = world.assemble_with(LockUse::Required).unwrap_err();
    let locked = first.lock.expected.layers[1].digest.to_string();
    says(
        &error,
        &["layer libtorch", &locked, "images lock other-library"],
    );
}

#[test]
fn another_base_archive_is_refused_with_both_digests() {
    let world = World::new("other-base");
    let first = world.assemble().unwrap();
    first
        .lock
        .write(&world.read().unwrap().lock_file())
        .unwrap();
    world.base(&["libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6"]);
    let error = world.assemble().unwrap_err();
    let locked = first.lock.expected.layers[0].digest.to_string();
    says(
        &error,
        &["base archive", &locked, "restore the archive, or lock"],
    );
}

#[test]
fn a_spec_that_changed_after_it_was_locked_is_refused() {
    let world = World::new("changed-spec");
    let first = world.assemble().unwrap();
    first
        .lock
        .write(&world.read().unwrap().lock_file())
        .unwrap();
    world.spec(&SPEC.replace("hello", "bye"));
    says(
        &world.assemble().unwrap_err(),
        &["the spec was changed", "images lock changed-spec"],
    );
    // A comment changes nothing.
    world.spec(&format!("# just words\n{SPEC}"));
    assert_eq!(
        world.assemble().unwrap().facts.lock,
        Some(ImageLock::Matches)
    );
}

#[test]
fn a_lock_edited_by_hand_or_cut_off_is_refused() {
    let world = World::new("edited");
    let file = world.read().unwrap().lock_file();
    world.assemble().unwrap().lock.write(&file).unwrap();
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("2.11.0", "2.12.1")).unwrap();
    says(
        &world.read().unwrap_err(),
        &["edited by hand", "images lock"],
    );
    fs::write(&file, &good[..good.len() / 2]).unwrap();
    says(
        &world.read().unwrap_err(),
        &["edited.lock.json", "cannot be used"],
    );
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    says(
        &world.read().unwrap_err(),
        &["edited.lock.json", "it is a directory", "images lock"],
    );
    fs::remove_dir(&file).unwrap();
    fs::write(&file, good).unwrap();
    world.read().unwrap();
}

#[test]
fn a_lock_whose_names_lead_elsewhere_is_refused() {
    let world = World::new("traversal");
    let file = world.read().unwrap().lock_file();
    let mut lock = world.assemble().unwrap().lock;
    let images::lock::LibtorchLock::Installed(installed) = &mut lock.libtorch else {
        panic!("the small world's libtorch is a folder");
    };
    installed.libraries[0].name = "../../libc10.so".to_owned();
    lock.sealed().write(&file).unwrap();
    says(
        &world.read().unwrap_err(),
        &["`../../libc10.so` is no plain file name"],
    );
}
