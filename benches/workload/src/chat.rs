//! A multi-turn chat workload from a seed: shared system prompts, sessions interleaved in time, growing prefixes.
//!
//! Each session picks a system prompt (the k-th most popular with weight 1/k) and has some turns; the prompt of a turn is
//! the previous prompt, its answer and new words of the user. A full block keeps its content for the rest of the session,
//! so it keeps its id; a partial last block is another one in the next turn. Same options, same requests, everywhere: all
//! arithmetic is whole numbers. Refuses options that would not fit into a block id.

use crate::{Request, TOKENS_PER_BLOCK};
use std::collections::BTreeSet;
use ziggurat_base::{Code, Error, Result, hash::Dice};

/// The most sessions, and system prompts: their numbers have 24 bits in a block id.
pub const SESSIONS_MAX: u32 = 1 << 24;

/// The most turns of a session on average; together with [`PART_TOKENS_MAX`] it bounds the position of a block.
pub const TURNS_MAX: u32 = 1 << 10;

/// The most tokens, on average, of a system prompt, of what a user says, and of an answer.
pub const PART_TOKENS_MAX: u64 = 1 << 24;

/// Milliseconds between two requests on average.
const GAP_MS: u64 = 100;

/// Weight of the most popular system prompt.
const WEIGHT: u64 = 1 << 32;

/// Size and shape of the workload. Numbers of turns and tokens are averages: each one drawn is between half and one and
/// a half times as large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatOptions {
    /// Everything that is drawn follows from it.
    pub seed: u64,
    /// Sessions in all.
    pub sessions: u32,
    /// Sessions in progress at a time; a new one begins when one ends.
    pub sessions_at_once: u32,
    /// Turns of a session.
    pub turns: u32,
    /// Different system prompts.
    pub system_prompts: u32,
    /// Tokens of a system prompt.
    pub system_tokens: u64,
    /// Tokens that a user adds in a turn.
    pub user_tokens: u64,
    /// Tokens of an answer.
    pub answer_tokens: u64,
}

impl Default for ChatOptions {
    /// About 23,000 different blocks; recency serves 57 % of the prompt tokens from a quarter of the memory.
    fn default() -> Self {
        Self {
            seed: 1,
            sessions: 1_200,
            sessions_at_once: 600,
            turns: 4,
            system_prompts: 16,
            system_tokens: 1_536,
            user_tokens: 1_500,
            answer_tokens: 700,
        }
    }
}

impl ChatOptions {
    fn validate(&self) -> Result<()> {
        let bounds = [
            (
                "sessions",
                u64::from(self.sessions),
                u64::from(SESSIONS_MAX),
            ),
            (
                "sessions_at_once",
                u64::from(self.sessions_at_once),
                u64::from(SESSIONS_MAX),
            ),
            ("turns", u64::from(self.turns), u64::from(TURNS_MAX)),
            (
                "system_prompts",
                u64::from(self.system_prompts),
                u64::from(SESSIONS_MAX),
            ),
            ("system_tokens", self.system_tokens, PART_TOKENS_MAX),
            ("user_tokens", self.user_tokens, PART_TOKENS_MAX),
            ("answer_tokens", self.answer_tokens, PART_TOKENS_MAX),
        ];
        let faults: Vec<String> = bounds
            .iter()
            .filter(|(_, value, max)| !(1..=*max).contains(value))
            .map(|(name, value, max)| format!("{name} is {value}: give 1 to {max}"))
            .collect();
        if faults.is_empty() {
            return Ok(());
        }
        Err(Error::new(Code::InvalidParams, faults.join("; ")))
    }
}

/// One system prompt.
#[derive(Clone, Copy, Debug)]
struct SystemPrompt {
    tokens: u64,
    /// Its weight and those of all more popular ones.
    weight_up_to: u64,
}

/// One conversation in progress.
#[derive(Debug)]
struct Session {
    number: u32,
    system_prompt: usize,
    /// Tokens of the whole conversation so far.
    tokens: u64,
    turns_left: u64,
}

/// The requests, in order of time.
#[derive(Debug)]
pub struct Chat {
    options: ChatOptions,
    dice: Dice,
    system_prompts: Vec<SystemPrompt>,
    sessions: Vec<Session>,
    begun: u32,
    now_ms: u64,
}

impl Chat {
    /// A workload.
    ///
    /// # Errors
    /// [`Code::InvalidParams`] naming every option that is 0 or too large.
    pub fn new(options: ChatOptions) -> Result<Self> {
        options.validate()?;
        let mut dice = Dice::new(options.seed);
        let mut weight_up_to = 0;
        let system_prompts = (1..=u64::from(options.system_prompts))
            .map(|rank| {
                weight_up_to += (WEIGHT / rank).max(1);
                SystemPrompt {
                    tokens: around(&mut dice, options.system_tokens),
                    weight_up_to,
                }
            })
            .collect();
        Ok(Self {
            options,
            dice,
            system_prompts,
            sessions: Vec::new(),
            begun: 0,
            now_ms: 0,
        })
    }

    fn begin_session(&mut self) {
        let all = self.system_prompts.last().map_or(0, |p| p.weight_up_to);
        let drawn = self.dice.below(all);
        let system_prompt = self
            .system_prompts
            .partition_point(|prompt| prompt.weight_up_to <= drawn);
        self.sessions.push(Session {
            number: self.begun,
            system_prompt,
            tokens: self.system_prompts[system_prompt].tokens,
            turns_left: around(&mut self.dice, u64::from(self.options.turns)),
        });
        self.begun += 1;
    }

    /// The blocks of a session's prompt.
    fn blocks(&self, session: &Session) -> Vec<u64> {
        let shared = self.system_prompts[session.system_prompt].tokens / TOKENS_PER_BLOCK;
        let full = session.tokens / TOKENS_PER_BLOCK;
        let partial = session.tokens % TOKENS_PER_BLOCK;
        let id = |index, tokens| {
            if index < shared {
                BlockId::Shared(session.system_prompt as u64).pack(index, 0)
            } else {
                BlockId::Own(u64::from(session.number)).pack(index, tokens)
            }
        };
        let mut blocks: Vec<u64> = (0..full).map(|index| id(index, 0)).collect();
        if partial > 0 {
            blocks.push(id(full, partial));
        }
        blocks
    }
}

impl Iterator for Chat {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.begun < self.options.sessions
            && self.sessions.len() < self.options.sessions_at_once as usize
        {
            self.begin_session();
        }
        if self.sessions.is_empty() {
            return None;
        }
        self.now_ms += around(&mut self.dice, GAP_MS);
        let at = self.dice.below(self.sessions.len() as u64) as usize;
        let said = around(&mut self.dice, self.options.user_tokens);
        let answered = around(&mut self.dice, self.options.answer_tokens);
        self.sessions[at].tokens += said;
        let request = Request {
            timestamp_ms: self.now_ms,
            input_length: self.sessions[at].tokens,
            output_length: answered,
            blocks: self.blocks(&self.sessions[at]),
        };
        self.sessions[at].tokens += answered;
        self.sessions[at].turns_left -= 1;
        if self.sessions[at].turns_left == 0 {
            self.sessions.swap_remove(at);
        }
        Some(request)
    }
}

/// Whose content a block has. The parts of an id have fields of their own, so ids are equal only when all parts are.
#[derive(Clone, Copy, Debug)]
enum BlockId {
    Shared(u64),
    Own(u64),
}

impl BlockId {
    const TOKENS_BITS: u32 = 9;
    const INDEX_BITS: u32 = 28;
    const NUMBER_BITS: u32 = 24;

    /// The id of the block at `index`; `tokens` is 0 for a full one.
    fn pack(self, index: u64, tokens: u64) -> u64 {
        let (own, number) = match self {
            Self::Shared(number) => (0, number),
            Self::Own(number) => (1, number),
        };
        assert!(tokens >> Self::TOKENS_BITS == 0 && index >> Self::INDEX_BITS == 0);
        let head = own << Self::NUMBER_BITS | number;
        (head << Self::INDEX_BITS | index) << Self::TOKENS_BITS | tokens
    }
}

/// A number from half of `mean` to one and a half of it, at least 1.
fn around(dice: &mut Dice, mean: u64) -> u64 {
    (mean / 2 + dice.below(mean + 1)).max(1)
}

/// The number of different blocks in `requests`: what a store would need in order to keep them all.
pub fn unique_blocks(requests: impl IntoIterator<Item = Request>) -> u64 {
    let blocks: BTreeSet<u64> = requests.into_iter().flat_map(|r| r.blocks).collect();
    blocks.len() as u64
}

#[cfg(test)]
mod tests {
    use super::{Chat, ChatOptions, unique_blocks};
    use crate::{PolicyKind, PredictOptions, Request, predict};
    use std::collections::BTreeMap;
    use ziggurat_base::Code;

    fn requests(options: &ChatOptions) -> Vec<Request> {
        Chat::new(options.clone()).unwrap().collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let options = ChatOptions::default();
        assert_eq!(requests(&options), requests(&options));
        let other = ChatOptions {
            seed: 2,
            ..options.clone()
        };
        assert_ne!(requests(&options), requests(&other));
    }

    #[test]
    fn prompts_fill_their_blocks_and_time_goes_on() {
        let requests = requests(&ChatOptions::default());
        for request in &requests {
            assert_eq!(
                request.blocks.len() as u64,
                request.input_length.div_ceil(512)
            );
        }
        assert!(requests.is_sorted_by_key(|request| request.timestamp_ms));
    }

    #[test]
    fn equal_ids_have_equal_prefixes() {
        let mut before = BTreeMap::new();
        for request in requests(&ChatOptions::default()) {
            let mut prefix = None;
            for block in request.blocks {
                assert_eq!(*before.entry(block).or_insert(prefix), prefix);
                prefix = Some(block);
            }
        }
    }

    #[test]
    fn a_quarter_of_the_memory_serves_a_fair_part_of_the_tokens() {
        for sessions in [1_200, 5_000] {
            for seed in 1..4 {
                let options = ChatOptions {
                    seed,
                    sessions,
                    ..ChatOptions::default()
                };
                let requests = requests(&options);
                let unique = unique_blocks(requests.iter().cloned());
                assert!(unique >= 16_384, "1 GiB at 64 KiB a block: {unique} blocks");
                let totals = predict(
                    requests.into_iter().map(Ok),
                    &PredictOptions {
                        policy: PolicyKind::Lru,
                        capacity_blocks: unique / 4,
                        requests_max: None,
                    },
                )
                .unwrap();
                assert!((0.3..0.7).contains(&totals.prefix_token_hit_rate));
                assert!(totals.evictions >= 1_000);
            }
        }
    }

    #[test]
    fn every_fault_in_the_options_is_named() {
        let options = ChatOptions {
            sessions: 0,
            turns: 5_000,
            ..ChatOptions::default()
        };
        let error = Chat::new(options).unwrap_err();
        assert_eq!(error.code(), Code::InvalidParams);
        assert!(error.what().contains("sessions is 0: give 1 to"), "{error}");
        assert!(error.what().contains("turns is 5000: give 1 to"), "{error}");
    }
}
