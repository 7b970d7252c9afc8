use super::{FILE, Journal, Mark, REWRITE_MIN, Writer, format::tests::all};
use std::{fs, io, sync::Arc};
use ziggurat_base::{Code, DirectoryId, Ticket};
use ziggurat_engine::record::Record;

const DIRECTORY: DirectoryId = DirectoryId(5);

fn debt(serial: u64) -> Record {
    Record::Debt {
        directory: DIRECTORY,
        ticket: Ticket(serial),
    }
}

fn paid(serial: u64) -> Record {
    Record::DebtPaid {
        directory: DIRECTORY,
        ticket: Ticket(serial),
    }
}

fn append(journal: &Journal, records: Vec<Record>) {
    journal.append(records);
    if let Some(mark) = journal.tail() {
        journal.wait_here(mark).unwrap();
    }
    assert_eq!(journal.tail(), None);
}

#[test]
fn what_was_waited_for_is_there_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, found) = Journal::open(dir.path()).unwrap();
    assert_eq!(found, []);
    append(&journal, vec![debt(1), debt(2)]);
    append(&journal, vec![paid(1), debt(3)]);
    // What the file is at this moment, with half a batch behind it.
    let mut torn = fs::read(dir.path().join(FILE)).unwrap();
    torn.extend_from_slice(&torn.clone()[32..100]);
    let crashed = tempfile::tempdir().unwrap();
    fs::write(crashed.path().join(FILE), &torn).unwrap();
    let (second, found) = Journal::open(crashed.path()).unwrap();
    let directory = Record::Directory {
        directory: DIRECTORY,
    };
    assert_eq!(found, [directory, debt(2), debt(3)]);
    append(&second, vec![debt(4)]);
    drop(second);
    let (_third, found) = Journal::open(crashed.path()).unwrap();
    assert_eq!(found.len(), 4);
}

#[test]
fn two_masters_do_not_share_a_state_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = Journal::open(dir.path()).unwrap();
    let refused = Journal::open(dir.path()).unwrap_err();
    assert_eq!(refused.code(), Code::FileLockFail);
    assert!(refused.what().contains("--state-dir"), "{refused}");
    drop(first);
    Journal::open(dir.path()).unwrap();
}

#[test]
fn a_foreign_or_damaged_file_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), [7; 100]).unwrap();
    let refused = Journal::open(dir.path()).unwrap_err();
    assert!(refused.what().contains("records"), "{refused}");
    fs::write(dir.path().join(FILE), [7; 10]).unwrap();
    let (_, found) = Journal::open(dir.path()).unwrap();
    assert_eq!(found, [], "a file that was never begun");
}

#[test]
fn paid_debts_do_not_fill_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path()).unwrap();
    append(&journal, all());
    let mut longest = 0;
    for round in 0..12 {
        let serials = || round * 20_000..(round + 1) * 20_000;
        append(&journal, serials().map(debt).collect());
        append(&journal, serials().map(paid).collect());
        longest = fs::metadata(dir.path().join(FILE))
            .unwrap()
            .len()
            .max(longest);
    }
    assert!(longest < REWRITE_MIN + 3 * 20_000 * 32, "{longest}");
    append(&journal, vec![debt(u64::MAX)]);
    drop(journal);
    let (_, found) = Journal::open(dir.path()).unwrap();
    assert_eq!(found.len(), 2 + 2, "what was there before is kept");
}

#[test]
fn those_who_wait_are_told_of_a_failure_and_the_next_write_tries_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    let (file, contents) = Writer::open(&path).unwrap();
    let mut writer = Writer {
        path,
        file,
        len: contents.good_len,
        batches: 0,
        rewrite_at: REWRITE_MIN,
        is_renamed: false,
        shared: Arc::default(),
    };
    let shared = writer.shared.clone();
    shared.lock().appended = Mark(1);
    writer.settle(vec![debt(1)], Mark(1), Err(io::Error::other("full")));
    let failed = shared.lock().outcome(Mark(1)).unwrap().unwrap_err();
    assert_eq!(failed.code(), Code::PersistentFail);
    assert!(failed.what().contains("full"), "{failed}");
    assert_eq!(shared.lock().outcome(Mark(2)), None, "not tried yet");
    let pending = std::mem::take(&mut shared.lock().pending);
    assert_eq!(pending, [debt(1)], "still true");
    let again = writer.write(&pending);
    writer.settle(pending, Mark(2), again);
    assert_eq!(shared.lock().outcome(Mark(2)), Some(Ok(())));
}
