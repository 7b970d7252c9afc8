//! Crate edges (convention 2): the table of docs/ARCHITECTURE.md §2 as a constant, and the check of every dependency
//! against it. An edge goes down; a new edge changes the table in both places first.

use crate::tree::{Fault, Tree};
use crate::workspace::{Edge, Member, Usage};

/// One row of the table.
struct Row {
    name: &'static str,
    folder: &'static str,
    floor: Floor,
    /// The workspace crates that it may depend on.
    may: &'static [&'static str],
    /// Crates from outside that would bring in what it must never contain.
    never: &'static [&'static str],
}

/// Where a crate lives in the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Floor {
    /// On the stairs, counted from the ground in halves, so that what stands beside floor 4 has a place.
    Halves(u8),
    /// May see all; nobody sees it.
    OffTheStairs,
}

const BASE: &str = "ziggurat-base";
const ENGINE: &str = "ziggurat-engine";
const IO: &str = "ziggurat-io";
const PROTO: &str = "ziggurat-proto";
const TRANSPORT: &str = "ziggurat-transport";
const TIERS: &str = "ziggurat-tiers";
const DFS: &str = "ziggurat-dfs";
const HF3FS: &str = "hf3fs-sys";
const MASTER: &str = "ziggurat-master";
const NODE: &str = "ziggurat-node";
const CLIENT: &str = "ziggurat-client";
const STORE: &str = "ziggurat-store";
const WORKLOAD: &str = "ziggurat-workload";

const NO_RUNTIME: &[&str] = &["tokio", "tonic", "async-std", "smol", "mio"];
const NO_RUNTIME_NO_DICE: &[&str] = &[
    "tokio",
    "tonic",
    "async-std",
    "smol",
    "mio",
    "rand",
    "getrandom",
    "libc",
    "tracing",
    "log",
];

const fn row(
    name: &'static str,
    folder: &'static str,
    floor: Floor,
    may: &'static [&'static str],
) -> Row {
    Row {
        name,
        folder,
        floor,
        may,
        never: &[],
    }
}

const fn never(row: Row, never: &'static [&'static str]) -> Row {
    Row { never, ..row }
}

/// docs/ARCHITECTURE.md §2, with the crates that are planned and not there yet.
const TABLE: &[Row] = &[
    never(row(BASE, "engine/base", Floor::Halves(0), &[]), NO_RUNTIME),
    never(
        row(ENGINE, "engine", Floor::Halves(2), &[BASE]),
        NO_RUNTIME_NO_DICE,
    ),
    never(row(IO, "tiers/io", Floor::Halves(2), &[BASE]), NO_RUNTIME),
    row(HF3FS, "dfs/hf3fs-sys", Floor::Halves(2), &[]),
    row(PROTO, "proto", Floor::Halves(4), &[ENGINE, BASE]),
    row(TRANSPORT, "transport", Floor::Halves(4), &[ENGINE, BASE]),
    row(TIERS, "tiers", Floor::Halves(4), &[ENGINE, IO, BASE]),
    row(DFS, "dfs", Floor::Halves(4), &[ENGINE, IO, BASE, HF3FS]),
    row(MASTER, "master", Floor::Halves(6), &[ENGINE, PROTO, BASE]),
    row(
        NODE,
        "node",
        Floor::Halves(6),
        &[ENGINE, PROTO, TRANSPORT, TIERS, DFS, IO, BASE],
    ),
    row(
        CLIENT,
        "client",
        Floor::Halves(6),
        &[ENGINE, PROTO, TRANSPORT, DFS, IO, BASE],
    ),
    row(
        STORE,
        "store",
        Floor::Halves(8),
        &[
            MASTER, NODE, CLIENT, PROTO, TRANSPORT, TIERS, DFS, ENGINE, IO, BASE,
        ],
    ),
    row(
        WORKLOAD,
        "benches/workload",
        Floor::Halves(9),
        &[
            STORE, MASTER, NODE, CLIENT, PROTO, TRANSPORT, TIERS, DFS, ENGINE, IO, BASE,
        ],
    ),
    row(
        "ziggurat",
        "cli",
        Floor::Halves(10),
        &[STORE, WORKLOAD, BASE],
    ),
    row(
        "ziggurat-python",
        "python",
        Floor::Halves(10),
        &[STORE, WORKLOAD, BASE],
    ),
    row("ziggurat-capi", "capi", Floor::Halves(10), &[STORE, BASE]),
    row("ziggurat-tests", "tests", Floor::OffTheStairs, &[]),
    row("ziggurat-benches", "benches", Floor::OffTheStairs, &[]),
    row("fio-tests", "fio-tests", Floor::OffTheStairs, &[]),
    row("xtask", "xtask", Floor::OffTheStairs, &[]),
];

fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// Every member has a row, lies in its folder, and has only the edges of its row.
pub(crate) fn check(members: &[Member], tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for member in members {
        let manifest = format!("{}/Cargo.toml", member.folder);
        let fault = |start: &str, what: String| {
            let line = tree
                .get(&manifest)
                .map_or(1, |source| source.line_starting(start));
            Fault {
                path: manifest.clone(),
                line,
                what,
            }
        };
        let Some(row) = find(&member.name) else {
            let what = format!(
                "crate `{}` is not in the table of crates; add a row to docs/ARCHITECTURE.md §2 and to \
                 xtask/src/tidy/edges.rs, or use a planned name",
                member.name
            );
            faults.push(fault("name", what));
            continue;
        };
        if row.folder != member.folder {
            let what = format!(
                "crate `{}` belongs in {}/; move it, or change its row first",
                row.name, row.folder
            );
            faults.push(fault("name", what));
        }
        let complaints = member
            .edges
            .iter()
            .filter_map(|edge| complaint(row, edge, members).map(|what| (edge, what)));
        faults.extend(complaints.map(|(edge, what)| fault(&edge.to, what)));
    }
    faults
}

/// What is wrong with an edge, if something is.
fn complaint(from: &Row, edge: &Edge, members: &[Member]) -> Option<String> {
    let is_ours = members.iter().any(|member| member.name == edge.to);
    let Some(to) = find(&edge.to).filter(|_| is_ours) else {
        let is_barred = edge.usage == Usage::Product && from.never.contains(&edge.to.as_str());
        return is_barred.then(|| {
            format!(
                "`{}` must never contain `{}` (docs/ARCHITECTURE.md §2); move the code a floor up",
                from.name, edge.to
            )
        });
    };
    if to.floor == Floor::OffTheStairs {
        return Some(format!(
            "nobody may see `{}`: it is off the stairs; move what is needed into a crate below",
            to.name
        ));
    }
    let is_permitted = from.floor == Floor::OffTheStairs
        || from.may.contains(&to.name)
        // A crate's tests may use what stands on its own floor or below, as the contract suites of the testkit.
        || (edge.usage == Usage::Test && to.floor <= from.floor);
    (!is_permitted).then(|| match edge.usage {
        Usage::Product => format!(
            "`{}` may not depend on `{}` (docs/ARCHITECTURE.md §2); go through a port of a lower floor, or change the \
             table first",
            from.name, to.name
        ),
        Usage::Test => format!(
            "tests of `{}` may not use `{}`, which is a floor above; put the test into tests/",
            from.name, to.name
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::{BASE, ENGINE, Floor, MASTER, TABLE, TRANSPORT, check, find};
    use crate::tree::Tree;
    use crate::workspace::{Edge, Member, Usage};

    fn member(name: &str, folder: &str, edges: &[(&str, Usage)]) -> Member {
        let edges = edges
            .iter()
            .map(|(to, usage)| Edge {
                to: (*to).to_owned(),
                usage: *usage,
            })
            .collect();
        Member {
            name: name.to_owned(),
            folder: folder.to_owned(),
            edges,
            ..Member::default()
        }
    }

    fn house(last: Member) -> Vec<String> {
        let members = [
            member(BASE, "engine/base", &[("libc", Usage::Product)]),
            member(ENGINE, "engine", &[(BASE, Usage::Product)]),
            member(
                TRANSPORT,
                "transport",
                &[(ENGINE, Usage::Product), (ENGINE, Usage::Test)],
            ),
            member("xtask", "xtask", &[(BASE, Usage::Product)]),
            last,
        ];
        check(&members, &Tree::default())
            .into_iter()
            .map(|fault| fault.what)
            .collect()
    }

    #[test]
    fn edges_of_the_table_pass() {
        assert_eq!(
            house(member(
                MASTER,
                "master",
                &[(ENGINE, Usage::Product), ("tokio", Usage::Product)]
            )),
            [""; 0]
        );
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_a_fault() {
        let faults = house(member(MASTER, "master", &[(TRANSPORT, Usage::Product)]));
        assert!(
            faults.len() == 1 && faults[0].contains("may not depend on `ziggurat-transport`"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_test_edge_goes_down_or_level_but_not_up() {
        assert_eq!(
            house(member(MASTER, "master", &[(TRANSPORT, Usage::Test)])),
            [""; 0]
        );
        let faults = house(member(
            "ziggurat-io",
            "tiers/io",
            &[(TRANSPORT, Usage::Test)],
        ));
        assert!(
            faults.len() == 1 && faults[0].contains("a floor above"),
            "{faults:?}"
        );
    }

    #[test]
    fn nobody_sees_what_is_off_the_stairs() {
        let faults = house(member(MASTER, "master", &[("xtask", Usage::Test)]));
        assert!(
            faults.len() == 1 && faults[0].contains("off the stairs"),
            "{faults:?}"
        );
    }

    #[test]
    fn an_unknown_crate_and_a_wrong_folder_are_faults() {
        assert!(house(member("ziggurat-util", "util", &[]))[0].contains("not in the table"));
        assert!(house(member(MASTER, "server", &[]))[0].contains("belongs in master/"));
    }

    #[test]
    fn what_a_crate_must_never_contain_is_a_fault() {
        let members = [member(
            ENGINE,
            "engine",
            &[("tokio", Usage::Product), ("proptest", Usage::Test)],
        )];
        assert_eq!(check(&members, &Tree::default()).len(), 1);
    }

    #[test]
    fn every_row_goes_down() {
        for row in TABLE {
            for to in row.may {
                let target = find(to).expect("the table names only its own rows");
                assert!(
                    target.floor < row.floor && target.floor != Floor::OffTheStairs,
                    "{} -> {to}",
                    row.name
                );
            }
        }
    }
}
