//! File < environment < flag; all faults at once.

use super::{
    flags::{Everything, ForNode, ForServe, Selection},
    groups::Settings,
    layers::{Given, Layers, Origin},
    page,
    resolve::Config,
    setting::name_of,
};
use std::{collections::BTreeSet, path::PathBuf, time::Duration};
use tempfile::TempDir;
use ziggurat_base::{Code, Error, Result};
use ziggurat_store::AllocatorKind;

/// A file, variables and flags, resolved.
#[derive(Default)]
struct Case<'a> {
    file: Option<&'a str>,
    environment: &'a [(&'a str, &'a str)],
    flags: &'a [(&'a str, &'a str)],
    /// What the command reads; everything when not said.
    groups: Option<&'static [&'static str]>,
}

impl Case<'_> {
    fn resolve(&self) -> (TempDir, Result<Config>) {
        let dir = tempfile::tempdir().unwrap();
        let path = self.file.map(|text| {
            let path = dir.path().join("ziggurat.toml");
            std::fs::write(&path, text).unwrap();
            path
        });
        let pairs = self.environment.iter();
        let environment: Vec<_> = pairs
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        let flags: Vec<_> = self
            .flags
            .iter()
            .map(|(name, text)| Given {
                name: (*name).to_owned(),
                text: (*text).to_owned(),
                origin: Origin::Flag((*name).to_owned()),
            })
            .collect();
        let layers = Layers::read(&Settings::groups(), path, environment, &flags);
        (
            dir,
            Config::resolve(layers, self.groups.unwrap_or(Everything::GROUPS)),
        )
    }

    fn config(&self) -> Config {
        self.resolve().1.unwrap()
    }

    fn error(&self) -> Error {
        self.resolve().1.unwrap_err()
    }
}

fn origin(config: &Config, name: &str) -> Origin {
    let rows = config.rows();
    let row = rows.iter().find(|row| row.setting.name == name).unwrap();
    row.origin.clone()
}

#[test]
fn a_flag_beats_the_environment_and_the_environment_beats_the_file() {
    let file = "# ours\n[partition]\nlease = \"1s\"\nclient-ttl = \"2s\"\nseed = 7\n";
    let config = Case {
        file: Some(file),
        environment: &[("ZIGGURAT_LEASE", "3s"), ("ZIGGURAT_CLIENT_TTL", "4s")],
        flags: &[("lease", "5s")],
        ..Case::default()
    }
    .config();
    let partition = &config.settings.partition;
    assert_eq!(partition.lease, Duration::from_secs(5));
    assert_eq!(partition.client_ttl, Duration::from_secs(4));
    assert_eq!(partition.seed, 7);
    assert_eq!(origin(&config, "lease").to_string(), "--lease");
    assert_eq!(
        origin(&config, "client-ttl").to_string(),
        "ZIGGURAT_CLIENT_TTL"
    );
    assert!(
        origin(&config, "seed")
            .to_string()
            .ends_with("ziggurat.toml:5")
    );
    assert_eq!(origin(&config, "dram"), Origin::Default);
}

#[test]
fn every_fault_is_told_at_once_in_the_order_of_the_layers() {
    let file = "[partition]\nleese = \"1s\"\nclient-ttl = \"soon\"\ndram = \"1GiB\"\n[node]\nsegments = []\nnode = 1\n";
    let error = Case {
        file: Some(file),
        environment: &[("ZIGGURAT_EVICTION_POLICY", "random")],
        flags: &[("eviction-ratio", "1"), ("numa-node", "-1")],
        ..Case::default()
    }
    .error();
    assert_eq!(error.code(), Code::ConfigInvalid);
    let what = error.what();
    let parts = [
        "8 faults",
        ":2: `leese` is not a setting in [partition]: did you mean `lease`?",
        ":3: client-ttl: \"soon\" is not a duration",
        ":4: `dram` is not a setting in [partition]: it belongs into [node]",
        ":6: `segments` is an array",
        ":7: `node` is not a setting in [node]",
        "ZIGGURAT_EVICTION_POLICY: \"random\" is not an eviction policy: use one of lru, fifo, s3_fifo",
        "--eviction-ratio: \"1\" is out of bounds: give at least 0, less than 1",
        "--numa-node: \"-1\" is not a whole number",
    ];
    let mut rest = what;
    for part in parts {
        let (_, after) = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("{part:?} is not, or not there, in {what}"));
        rest = after;
    }
}

#[test]
fn a_bad_value_is_a_fault_even_where_a_stronger_one_hides_it() {
    let error = Case {
        environment: &[("ZIGGURAT_DRAM", "much")],
        flags: &[("dram", "1GiB")],
        ..Case::default()
    }
    .error();
    assert!(error.what().contains("ZIGGURAT_DRAM"), "{error}");
}

#[test]
fn text_that_is_not_toml_is_told_with_its_line() {
    let error = Case {
        file: Some("[partition]\nlease = \"1s\"\nseed = = 1\n"),
        ..Case::default()
    }
    .error();
    assert!(
        error.what().contains("ziggurat.toml:3: this is not TOML"),
        "{error}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_the_fault_of_who_named_it() {
    let missing = PathBuf::from("no-such-folder/ziggurat.toml");
    let groups = Settings::groups();
    let layers = Layers::read(&groups, Some(missing), [], &[]);
    let error = Config::resolve(layers, &[]).unwrap_err();
    assert!(error.what().contains("--config: cannot read"), "{error}");
    let variable = ("ZIGGURAT_CONFIG".into(), "no-such-folder/x.toml".into());
    let error = Config::resolve(Layers::read(&groups, None, [variable], &[]), &[]).unwrap_err();
    assert!(
        error.what().contains("ZIGGURAT_CONFIG: cannot read"),
        "{error}"
    );
}

#[test]
fn unknown_tables_and_settings_outside_a_table_are_refused() {
    let error = Case {
        file: Some("lease = \"1s\"\nnode = 1\n[partitions]\n[colours]\n"),
        ..Case::default()
    }
    .error();
    for part in [
        ":1: `lease` is not a setting: it belongs into [partition]",
        ":2: `node` is a table: write [node]",
        ":3: `partitions` is not a setting: did you mean `partition`?",
        ":4: `colours` is not a setting: `ziggurat config` lists all settings",
    ] {
        assert!(error.what().contains(part), "{part:?} is not in {error}");
    }
}

#[test]
fn values_that_contradict_each_other_are_named_both() {
    let error = Case {
        file: Some("[partition]\nput-start-discard-timeout = \"1h\"\n"),
        flags: &[
            ("dram", "4KiB"),
            ("segments", "2"),
            ("rpc-address", "127.0.0.1:9003"),
            ("eviction-ratio", "95%"),
        ],
        groups: Some(ForServe::GROUPS),
        ..Case::default()
    }
    .error();
    for part in [
        "4 faults",
        "put-start-release-timeout (its default) must be longer than put-start-discard-timeout (1h, from ",
        "dram (4KiB, from --dram) must give at least 4KiB to each of segments (2, from --segments)",
        "admin-address (its default) must differ from rpc-address (127.0.0.1:9003, from --rpc-address)",
        "eviction-ratio (95%, from --eviction-ratio) must be less than eviction-high-watermark-ratio (its default)",
    ] {
        assert!(error.what().contains(part), "{part:?} is not in {error}");
    }
}

#[test]
fn a_cap_that_holds_nothing_is_refused_with_the_least() {
    for bad in ["0", "1MiB"] {
        let error = Case {
            flags: &[("ssd-logical-cap", bad)],
            ..Case::default()
        }
        .error();
        let told = format!("{bad:?} is out of bounds: give at least 2MiB");
        assert!(error.what().contains(&told), "{error}");
    }
    let config = Case {
        flags: &[("ssd-logical-cap", "3GiB")],
        ..Case::default()
    }
    .config();
    let cap = config.settings.node.ssd_logical_cap;
    assert_eq!(cap, Some(ziggurat_base::ByteCount::gib(3)));
}

#[test]
fn a_node_and_its_http_cannot_share_a_port() {
    let error = Case {
        flags: &[("node-admin-address", "127.0.0.1:50052")],
        groups: Some(ForNode::GROUPS),
        ..Case::default()
    }
    .error();
    let told = "node-admin-address (127.0.0.1:50052, from --node-admin-address) must differ from data-address";
    assert!(error.what().contains(told), "{error}");
    let off = Case {
        flags: &[("node-admin-address", "off")],
        groups: Some(ForNode::GROUPS),
        ..Case::default()
    };
    assert!(off.resolve().1.is_ok());
}

#[test]
fn what_a_command_does_not_read_cannot_contradict() {
    // The port of a node that does not run in this process.
    let case = Case {
        flags: &[("rpc-address", "127.0.0.1:50052")],
        ..Case::default()
    };
    assert!(case.resolve().1.is_ok());
}

#[test]
fn a_node_that_listens_everywhere_must_say_where_it_is() {
    let everywhere = ("data-address", "0.0.0.0:50052");
    let error = Case {
        flags: &[everywhere],
        ..Case::default()
    }
    .error();
    assert!(error.what().contains("advertise-address"), "{error}");
    let told = Case {
        flags: &[everywhere, ("advertise-address", "node-7:50052")],
        ..Case::default()
    };
    assert!(told.resolve().1.is_ok());
}

#[test]
fn an_empty_variable_counts_as_absent_and_a_strange_one_is_passed_over() {
    let config = Case {
        environment: &[
            ("ZIGGURAT_LEASE", ""),
            ("ZIGGURAT_MASTER_SERVICE_HOST", "10.0.0.1"),
            ("ZIGGURAT_LEESE", "1s"),
        ],
        ..Case::default()
    }
    .config();
    assert_eq!(origin(&config, "lease"), Origin::Default);
    let [remark] = &config.remarks[..] else {
        panic!("{:?}", config.remarks);
    };
    assert!(remark.contains("did you mean ZIGGURAT_LEASE?"), "{remark}");
}

#[test]
fn another_stores_word_is_accepted_with_a_remark() {
    let config = Case {
        flags: &[("memory-allocator", "cachelib")],
        ..Case::default()
    }
    .config();
    assert_eq!(
        config.settings.partition.memory_allocator,
        AllocatorKind::Slab
    );
    assert!(config.remarks[0].starts_with("--memory-allocator: "));
}

#[test]
fn what_is_printed_can_be_given_again() {
    let first = Settings::defaults();
    let config = Case::default().config();
    let rows = config.rows();
    let shown: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((&row.setting.name[..], row.value.as_deref()?)))
        .collect();
    let again = Case {
        flags: &shown,
        ..Case::default()
    }
    .config();
    assert_eq!(again.settings, first);
}

#[test]
fn a_name_means_one_setting() {
    let groups = Settings::groups();
    let names: Vec<_> = groups
        .iter()
        .flat_map(|group| &group.settings)
        .map(|setting| name_of(&setting.name))
        .chain(groups.iter().map(|group| group.name.to_owned()))
        .collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
}

#[test]
fn the_page_of_the_docs_is_the_one_that_the_settings_make() {
    let page_in_docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.md");
    let found = std::fs::read_to_string(page_in_docs).unwrap_or_default();
    assert_eq!(found, page(), "run `cargo xtask doc --write`");
}
