//! `ziggurat prefetch`: objects from SSD into memory, before somebody reads them.

use super::objects::{connected, keys_of};
use crate::{
    answer::{Answer, Exit},
    config::{Flags, ForClient},
    screen::Screen,
};
use serde_json::json;
use ziggurat_base::Result;
use ziggurat_store::{Prefetched, Priority};

/// Bring objects from SSD into memory
///
/// Says where each is on its way: in memory, under way, or stopped after --cancel. Exit code 1 when one cannot come, 3 when one is
/// not there.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ziggurat prefetch block/1 block/2\n  ziggurat prefetch block/1 --priority high\n  ziggurat prefetch block/1 block/2 --cancel"
)]
pub(crate) struct Arguments {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Before or after others that are wished for: low, normal or high
    #[arg(long, value_name = "PRIORITY", default_value = "normal")]
    priority: Priority,
    /// Do not bring them any more, if they are not there yet
    #[arg(long, conflicts_with = "priority")]
    cancel: bool,
    #[command(flatten)]
    flags: Flags<ForClient>,
}

pub(crate) fn run(arguments: &Arguments, screen: &Screen) -> Result<Answer> {
    let store = connected(&arguments.flags, screen)?;
    let keys = keys_of(&arguments.keys);
    let answers = match arguments.cancel {
        true => store.cancel_prefetch(&keys),
        false => store.prefetch_many(&keys, arguments.priority),
    };
    let (mut text, mut results, mut exit) = (String::new(), serde_json::Map::new(), Exit::Done);
    for (key, answer) in arguments.keys.iter().zip(answers) {
        let (shown, value) = match answer {
            Ok(Some(Prefetched::InMemory)) => ("in memory".to_owned(), json!("in_memory")),
            Ok(Some(Prefetched::UnderWay)) => ("under way".to_owned(), json!("under_way")),
            Ok(Some(Prefetched::Stopped)) => ("stopped".to_owned(), json!("stopped")),
            Ok(None) => {
                if exit != Exit::Failed {
                    exit = Exit::Miss;
                }
                ("not there".to_owned(), json!("OBJECT_NOT_FOUND"))
            }
            Err(error) => {
                exit = Exit::Failed;
                (error.to_string(), json!(error.code().name()))
            }
        };
        text += &format!("{key}: {shown}\n");
        results.insert(key.clone(), value);
    }
    Ok(Answer::done(text, &json!({"results": results})).ending(exit))
}
