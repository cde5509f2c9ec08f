//! A session's folder through its public face.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};

use record::{
    FolderError, Isolation, Outcome, Rank, Reason, Record, SessionFolder, Stage, VERSION, Workload,
};

fn record(run: &str) -> Record {
    Record {
        version: VERSION,
        run: run.into(),
        session: "s".into(),
        image: "local".into(),
        suite: "smoke".into(),
        scenario: "tiny".into(),
        workload: Workload::builtin("resnet-tiny", "training"),
        axes: protocol::Axes::usual().clone(),
        attempt: 1,
        started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        wall_seconds: 1.5,
        isolation: Isolation::without("process", &["memory limit"]),
        outcome: Outcome::failed(Reason::TimeLimit, Stage::Start, "longer than 1 s"),
        ..Record::default()
    }
}

#[test]
fn records_come_back_as_they_were_written() {
    let folder = SessionFolder::at(tempfile::tempdir().unwrap().keep());
    folder.create().unwrap();
    assert!(folder.read_records().unwrap().records.is_empty());
    folder.append(&record("a")).unwrap();
    folder.append(&record("b")).unwrap();
    let read = folder.read_records().unwrap();
    assert_eq!(read.records, [record("a"), record("b")]);
    assert_eq!(read.torn_after, None);
    fs::remove_dir_all(folder.path()).unwrap();
}

#[test]
fn a_torn_last_line_is_told_and_cut() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path());
    folder.append(&record("a")).unwrap();
    let path = home.path().join(SessionFolder::RECORDS);
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"version\":1,")
        .unwrap();
    let read = folder.read_records().unwrap();
    assert_eq!(read.records, [record("a")]);
    assert!(read.torn_after.is_some());
    folder.cut_torn_line(&read).unwrap();
    folder.append(&record("b")).unwrap();
    assert_eq!(
        folder.read_records().unwrap().records,
        [record("a"), record("b")]
    );
}

#[test]
fn damaged_lines_are_left_out_with_why() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path());
    folder.append(&record("a")).unwrap();
    let path = home.path().join(SessionFolder::RECORDS);
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged.extend(b"{\"version\":4,\"run\":\"b-1\"}\n");
    damaged.extend(b"\xff\xfe\n\n");
    damaged.extend(b"Segmentation fault\n{\"version\":77}\n");
    damaged.extend(&whole);
    damaged.extend(b"{\"vers");
    fs::write(&path, &damaged).unwrap();
    let read = folder.read_records().unwrap();
    assert_eq!(read.records, [record("a"), record("a")]);
    assert_eq!(
        read.left_out(),
        [
            "line 2 of the records: not a record: missing field `session`; left out (run b-1)",
            "line 3 of the records: not text (UTF-8); left out",
            "line 4 of the records: not a JSON object; left out",
            "line 5 of the records: not a JSON object; left out",
            "line 6 of the records: a record of version 77; left out",
            "last line of the records cut off while it was written; left out",
        ]
    );
}

/// The file may be anybody's: what a run cannot have yielded is no record, and acts on no terminal.
#[test]
fn values_and_axes_that_cannot_be_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path());
    let check = |change: &dyn Fn(&mut Record), expect: &str| {
        let mut bad = record("b-1");
        change(&mut bad);
        fs::write(home.path().join(SessionFolder::RECORDS), "").unwrap();
        folder.append(&record("a")).unwrap();
        folder.append(&bad).unwrap();
        let read = folder.read_records().unwrap();
        assert_eq!(read.records, [record("a")]);
        let expect = format!("line 2 of the records: not a record: {expect}; left out (run b-1)");
        assert_eq!(read.left_out(), [expect]);
    };
    let many = || (0..=1000).map(|i| (format!("v{i}"), 1.0)).collect();
    check(&|bad| bad.values = many(), "1001 values; at most 1000");
    let of_rank = |bad: &mut Record| {
        bad.ranks.push(Rank {
            rank: 1,
            place: record::Place {
                host: String::new(),
                device: protocol::Device::Cpu,
            },
            started: None,
            values: many(),
        });
    };
    check(&of_rank, "1001 values; at most 1000");
    check(
        &|bad| _ = bad.values.insert("a\u{1b}".into(), 1.0),
        "the name `a\\u{1b}`: expected up to 64 of a-z, 0-9 and _, a letter first",
    );
    check(
        &|bad| _ = bad.series.insert("Loss".into(), vec![None]),
        "the series `Loss`: expected up to 64 of a-z, 0-9 and _, a letter first",
    );
    check(
        &|bad| bad.axes.set("batch", "8\u{1b}[2J"),
        "the axis batch: expected up to 200 letters that print",
    );
    check(
        &|bad| bad.axes.set("Batch", 8),
        "the axis `Batch`: expected up to 64 of a-z, 0-9 and _, a letter first",
    );
}

/// The text of a refusal, with the folder replaced, which is another one each time.
fn refusal(error: &FolderError, home: &Path) -> String {
    assert!(matches!(error, FolderError::Refused(_)), "{error:?}");
    let text = error.to_string();
    text.replace(home.to_str().unwrap(), "/home")
}

#[test]
fn a_session_of_another_version_is_refused() {
    let home = tempfile::tempdir().unwrap();
    fs::write(
        home.path().join(SessionFolder::SESSION),
        "{\"version\": 99}",
    )
    .unwrap();
    let error = SessionFolder::at(home.path()).read_session().unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"/home/session.json is of version 99, and this Torchgauge reads version 4");
}

#[test]
fn what_others_hand_in_is_bounded_and_no_way_to_other_files() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path().join("s"));
    folder.create().unwrap();
    let (session, records) = (
        folder.path().join(SessionFolder::SESSION),
        folder.path().join(SessionFolder::RECORDS),
    );
    let precious = home.path().join("precious");
    fs::write(&precious, "root:x:0:0").unwrap();
    for path in [&session, &records] {
        std::os::unix::fs::symlink(&precious, path).unwrap();
    }
    let refusals = || {
        let session = folder.read_session().unwrap_err();
        let records = folder.read_records().unwrap_err();
        [session, records].map(|error| refusal(&error, home.path()))
    };
    let linked = refusals().join("\n");
    assert!(!linked.contains("root:x"), "{linked}");
    insta::assert_snapshot!(linked, @r"
    cannot read /home/s/session.json: it is a link that leads out of its folder; give the file itself; is this the folder of a session?
    cannot read /home/s/records.ndjson: it is a link that leads out of its folder; give the file itself; is this the folder of a session?
    ");
    for path in [&session, &records] {
        fs::remove_file(path).unwrap();
        fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    }
    insta::assert_snapshot!(refusals().join("\n"), @r"
    cannot read /home/s/session.json: it is larger than 64 MiB; is this the folder of a session?
    cannot read /home/s/records.ndjson: it is larger than 512 MiB; is this the folder of a session?
    ");

    let many = record::Session {
        version: VERSION,
        images: vec![record::ImageFacts::default(); 501],
        ..record::Session::default()
    };
    folder.write_session(&many).unwrap();
    let error = folder.read_session().unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"/home/s/session.json: 501 images; at most 500");
}

#[test]
fn a_line_without_end_is_left_out_unread() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path());
    folder.append(&record("a")).unwrap();
    let mut line = vec![b'['; (16 << 20) + 1];
    line.push(b'\n');
    let path = home.path().join(SessionFolder::RECORDS);
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&line).unwrap();
    let read = folder.read_records().unwrap();
    assert_eq!(read.records, [record("a")]);
    let told = "line 2 of the records: longer than 16 MiB; left out";
    assert_eq!(read.bad_lines, [told]);
}

#[test]
fn packed_records_are_read_as_they_were_and_added_to_no_more() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path());
    let (plain, packed) = (
        home.path().join(SessionFolder::RECORDS),
        home.path().join(SessionFolder::PACKED),
    );
    folder.append(&record("a")).unwrap();
    folder.append(&record("b")).unwrap();
    let lines = fs::read(&plain).unwrap();
    let whole = gzip(&mut lines.as_slice());
    fs::write(&packed, &whole).unwrap();

    // Of two the plain one counts: the other may be of before more was added.
    folder.append(&record("c")).unwrap();
    let named = |folder: &SessionFolder| {
        let records = folder.read_records().unwrap().records;
        records.into_iter().map(|one| one.run).collect::<Vec<_>>()
    };
    assert_eq!(named(&folder), ["a", "b", "c"]);
    fs::remove_file(&plain).unwrap();
    assert_eq!(named(&folder), ["a", "b"]);
    assert_eq!(folder.read_lines().unwrap(), lines);
    let refusals = [
        folder.append(&record("c")).unwrap_err(),
        folder.open_records().unwrap_err(),
    ]
    .map(|error| refusal(&error, home.path()));
    insta::assert_snapshot!(refusals.join("\n"), @r"
    cannot add records to /home/records.ndjson.gz; unpack it with `gunzip` first
    cannot add records to /home/records.ndjson.gz; unpack it with `gunzip` first
    ");
    assert!(!plain.exists());

    let refused = |content: &[u8]| {
        fs::write(&packed, content).unwrap();
        let error = folder.read_records().unwrap_err();
        refusal(&error, home.path())
    };
    let damaged = [
        refused(&whole[..whole.len() - 9]),
        refused(&lines),
        refused(&[&whole[..], b"more"].concat()),
    ];
    insta::assert_snapshot!(damaged.join("\n"), @r"
    /home/records.ndjson.gz: damaged, or not packed by gzip (incomplete deflate stream); copy the file again
    /home/records.ndjson.gz: damaged, or not packed by gzip (invalid gzip header); copy the file again
    /home/records.ndjson.gz: damaged, or not packed by gzip (unexpected end of file); copy the file again
    ");
    let bomb = gzip(&mut std::io::repeat(b'\n').take((512 << 20) + 1));
    assert!(bomb.len() < 8 << 20, "{}", bomb.len());
    insta::assert_snapshot!(refused(&bomb), @"/home/records.ndjson.gz: larger than 512 MiB unpacked");
}

fn gzip(content: &mut impl Read) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::copy(content, &mut packed).unwrap();
    packed.finish().unwrap()
}
