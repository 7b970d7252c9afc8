//! Keys and values of a small transformer with random weights, in bf16: layers of attention with rotary positions and a gated
//! feed-forward part, on a text of random tokens that repeat as words do. The computation is the usual one; the weights are
//! drawn, not learnt.

use ziggurat_base::hash::Dice;

const TOKENS: usize = 512;
const LAYERS: usize = 4;
const HEADS: usize = 4;
const HEAD: usize = 32;
const WIDTH: usize = HEADS * HEAD;
const INNER: usize = 2 * WIDTH;
const WORDS: usize = 1000;

/// Bytes of all keys, and of all values.
pub(super) const BYTES: usize = LAYERS * TOKENS * WIDTH * 2;

/// By layer, token, head, dimension.
pub(super) struct Made {
    pub(super) keys: Vec<u8>,
    pub(super) values: Vec<u8>,
}

/// Rows of numbers.
struct Matrix {
    width: usize,
    numbers: Vec<f32>,
}

impl Matrix {
    /// Drawn so that what goes through it keeps its size.
    fn drawn(dice: &mut Dice, height: usize, width: usize) -> Self {
        let size = 1.0 / (width as f32).sqrt();
        let numbers = (0..height * width).map(|_| gauss(dice) * size).collect();
        Self { width, numbers }
    }

    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.width)
    }

    fn times(&self, vector: &[f32]) -> Vec<f32> {
        self.rows().map(|row| dot(row, vector)).collect()
    }
}

/// Nearly a normal deviate: the sum of twelve even ones.
fn gauss(dice: &mut Dice) -> f32 {
    let even = |roll: u64| (roll >> 40) as f32 / (1 << 24) as f32;
    (0..12).map(|_| even(dice.roll())).sum::<f32>() - 6.0
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn normed(vector: &[f32]) -> Vec<f32> {
    let size = (dot(vector, vector) / vector.len() as f32 + 1e-6).sqrt();
    vector.iter().map(|x| x / size).collect()
}

/// Turns pairs of a head by angles that grow with the position.
fn turn(heads: &mut [f32], position: usize) {
    for head in heads.chunks_exact_mut(HEAD) {
        let (low, high) = head.split_at_mut(HEAD / 2);
        for (at, (x, y)) in low.iter_mut().zip(high).enumerate() {
            let speed = 10_000_f32.powf(-2.0 * at as f32 / HEAD as f32);
            let (sin, cos) = (position as f32 * speed).sin_cos();
            (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
        }
    }
}

/// What a token sees of itself and those before it.
fn attend(query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<f32> {
    let mut seen = vec![0.0; WIDTH];
    for head in 0..HEADS {
        let part = head * HEAD..(head + 1) * HEAD;
        let scale = 1.0 / (HEAD as f32).sqrt();
        let scores: Vec<f32> = keys
            .iter()
            .map(|key| dot(&query[part.clone()], &key[part.clone()]) * scale)
            .collect();
        let most = scores.iter().copied().fold(f32::MIN, f32::max);
        let weights: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
        let all: f32 = weights.iter().sum();
        for (weight, value) in weights.iter().zip(values) {
            let here = seen[part.clone()].iter_mut().zip(&value[part.clone()]);
            here.for_each(|(sum, x)| *sum += x * weight / all);
        }
    }
    seen
}

fn add(state: &mut [f32], more: &[f32]) {
    state.iter_mut().zip(more).for_each(|(x, y)| *x += y);
}

/// Rounds to the nearest, to even where two are as near.
fn bf16(number: f32) -> [u8; 2] {
    let bits = number.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    ((rounded >> 16) as u16).to_le_bytes()
}

fn store(rows: &[Vec<f32>], into: &mut Vec<u8>) {
    into.extend(rows.iter().flatten().flat_map(|number| bf16(*number)));
}

/// Runs the transformer over a text of its own.
pub(super) fn made(seed: u64) -> Made {
    let dice = &mut Dice::new(seed);
    let words = Matrix::drawn(dice, WORDS, WIDTH);
    // Few words are frequent, most are rare.
    let text: Vec<usize> = (0..TOKENS)
        .map(|_| (dice.below(WORDS as u64) * dice.below(WORDS as u64) / WORDS as u64) as usize)
        .collect();
    let size = (WIDTH as f32).sqrt();
    let mut states: Vec<Vec<f32>> = text
        .iter()
        .map(|word| {
            let row = &words.numbers[word * WIDTH..(word + 1) * WIDTH];
            row.iter().map(|x| x * size).collect()
        })
        .collect();
    let mut made = Made {
        keys: Vec::with_capacity(BYTES),
        values: Vec::with_capacity(BYTES),
    };
    for _ in 0..LAYERS {
        let [query, key, value, out] = [(); 4].map(|()| Matrix::drawn(dice, WIDTH, WIDTH));
        let [gate, up] = [(); 2].map(|()| Matrix::drawn(dice, INNER, WIDTH));
        let down = Matrix::drawn(dice, WIDTH, INNER);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (position, state) in states.iter_mut().enumerate() {
            let input = normed(state);
            let [mut asked, mut offered] = [query.times(&input), key.times(&input)];
            turn(&mut asked, position);
            turn(&mut offered, position);
            keys.push(offered);
            values.push(value.times(&input));
            add(state, &out.times(&attend(&asked, &keys, &values)));
            let input = normed(state);
            let gated: Vec<f32> = gate
                .times(&input)
                .iter()
                .zip(up.times(&input))
                .map(|(g, u)| g / (1.0 + (-g).exp()) * u)
                .collect();
            add(state, &down.times(&gated));
        }
        store(&keys, &mut made.keys);
        store(&values, &mut made.values);
    }
    made
}
