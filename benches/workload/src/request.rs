//! One prompt as the store sees it, and what is counted over many.

use serde::Serialize;

/// Tokens of one block; the last block of a request may have fewer.
pub const TOKENS_PER_BLOCK: u64 = 512;

/// One prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Arrival, in milliseconds from the start of the workload.
    pub timestamp_ms: u64,
    /// Tokens of the prompt.
    pub input_length: u64,
    /// Tokens of the answer.
    pub output_length: u64,
    /// The blocks of the prompt, first to last. Equal ids are equal content with an equal prefix.
    pub blocks: Vec<u64>,
}

impl Request {
    /// Tokens that an engine need not compute when the first `run` blocks are there.
    #[must_use]
    pub fn hit_tokens(&self, run: usize) -> u64 {
        self.input_length
            .min((run as u64).saturating_mul(TOKENS_PER_BLOCK))
    }
}

/// Sums over requests, the same for a prediction and a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Requests.
    pub requests: u64,
    /// Blocks of all requests.
    pub blocks: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens of leading runs of present blocks.
    pub hit_tokens: u64,
    /// `hit_tokens / prompt_tokens`, 0 to 1.
    pub prefix_token_hit_rate: f64,
    /// Blocks of leading runs of present blocks.
    pub hits: u64,
    /// Objects that were evicted.
    pub evictions: u64,
}

impl Totals {
    /// Counts a request of which the first `run` blocks were present.
    pub fn count(&mut self, request: &Request, run: usize) {
        self.requests += 1;
        self.blocks += request.blocks.len() as u64;
        self.prompt_tokens += request.input_length;
        self.hit_tokens += request.hit_tokens(run);
        self.hits += run as u64;
        self.prefix_token_hit_rate = self.hit_tokens as f64 / self.prompt_tokens.max(1) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, Totals};

    #[test]
    fn a_partial_last_block_counts_its_tokens_only() {
        let request = Request {
            input_length: 700,
            blocks: vec![1, 2],
            ..Request::default()
        };
        let hits = [0, 1, 2].map(|run| request.hit_tokens(run));
        assert_eq!(hits, [0, 512, 700]);
        let mut totals = Totals::default();
        totals.count(&request, 1);
        totals.count(&request, 2);
        assert_eq!((totals.requests, totals.blocks, totals.hits), (2, 4, 3));
        assert!((totals.prefix_token_hit_rate - 1212.0 / 1400.0).abs() < 1e-12);
    }

    #[test]
    fn no_tokens_are_no_hits() {
        let mut totals = Totals::default();
        totals.count(&Request::default(), 0);
        assert_eq!(totals.prefix_token_hit_rate, 0.0);
    }
}
