"""Keys and values of a small transformer that this script trains itself, as bfloat16, for `ziggurat bench codec --sample`.

    python3 benches/kv_sample.py --out DIR --minutes 10 FILE_OR_FOLDER...

Needs torch (the processor is enough). It learns to predict the next byte of the text that it is given, with rotary positions,
6 layers of 2 heads of 64; then it reads text that it was not trained on, and writes what an engine of pages would store for
each block of 16 tokens: for each layer keys `[token][head][64]` and then values. `keys.bin` and `values.bin` have one of both.
"""

import argparse
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, HEAD, WINDOW, BLOCK = 6, 2, 64, 256, 16
WIDTH = HEADS * HEAD
# Bytes of text that are enough, and the share that is kept from training.
TEXT_MAX, KEPT = 64 << 20, 0.1


def rotary(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of the positions."""
    speeds = 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
    angles = torch.arange(length)[:, None] * speeds
    return angles.cos(), angles.sin()


def turned(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turns halves of each head by the positions."""
    one, two = heads.chunk(2, dim=-1)
    return torch.cat((one * cos - two * sin, one * sin + two * cos), dim=-1)


class Layer(nn.Module):
    """Attention, then a wider layer for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.mixed = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, tokens, cos, sin, kept):
        count, length, _ = tokens.shape
        mixed = self.mixed(self.before(tokens)).view(count, length, 3, HEADS, HEAD)
        query, key, value = (part.transpose(1, 2) for part in mixed.unbind(2))
        query, key = turned(query, cos, sin), turned(key, cos, sin)
        if kept is not None:
            kept.append((key, value))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.out(seen.transpose(1, 2).reshape(count, length, WIDTH))
        return tokens + self.down(functional.gelu(self.up(self.between(tokens))))


class Model(nn.Module):
    """Bytes in, the next byte out."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(256, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, text, kept=None):
        cos, sin = rotary(text.shape[1])
        tokens = self.table(text)
        for layer in self.layers:
            tokens = layer(tokens, cos, sin, kept)
        return self.head(self.last(tokens))


def text_of(paths: list[pathlib.Path]) -> torch.Tensor:
    """The bytes of all files, up to a limit."""
    text = bytearray()
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and len(text) < TEXT_MAX:
                text += file.read_bytes()
    return torch.frombuffer(text, dtype=torch.uint8).long()


def trained(text: torch.Tensor, minutes: float) -> Model:
    """A model that has learnt for so long."""
    model = Model()
    steps = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    until, step, window = time.monotonic() + 60 * minutes, 0, torch.arange(WINDOW + 1)
    while time.monotonic() < until:
        starts = torch.randint(len(text) - WINDOW, (8, 1))
        piece = text[starts + window]
        wanted = piece[:, 1:].reshape(-1)
        loss = functional.cross_entropy(model(piece[:, :-1]).reshape(-1, 256), wanted)
        steps.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        if step % 50 == 0:
            print(f"step {step}: {loss.item() / 0.6931:.2f} bits a byte", flush=True)
        step += 1
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--windows", type=int, default=160)
    options = parser.parse_args()
    torch.manual_seed(1)
    text = text_of(options.text)
    cut = int(len(text) * (1 - KEPT))
    model = trained(text[:cut], options.minutes)
    model.eval()
    options.out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad(), open(options.out / "both.bin", "wb") as both, open(
        options.out / "keys.bin", "wb"
    ) as keys, open(options.out / "values.bin", "wb") as values:
        for number in range(options.windows):
            start = cut + number * WINDOW
            kept: list = []
            model(text[start : start + WINDOW][None], kept)
            raw = [
                [part[0].transpose(0, 1).bfloat16().contiguous().view(torch.uint8) for part in pair]
                for pair in kept
            ]
            for block in range(0, WINDOW, BLOCK):
                for key, value in raw:
                    key_bytes = key[block : block + BLOCK].numpy().tobytes()
                    value_bytes = value[block : block + BLOCK].numpy().tobytes()
                    both.write(key_bytes + value_bytes)
                    keys.write(key_bytes)
                    values.write(value_bytes)


main()
