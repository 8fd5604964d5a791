"""Transformers for images and sound: ViT and Whisper."""

from __future__ import annotations

from tiresias.profiles.zoo.language import attention, attention_flops
from tiresias.profiles.zoo.sheet import Sheet

AUDIO_TOKENS = 1500
"""Positions of the encoder: 30 seconds, with 0.02 seconds each."""
TEXT_TOKENS = 448
"""Positions of the decoder: the longest text."""


def vit(width: int, depth: int, patch: int = 16, size: int = 224, classes: int = 1000) -> Sheet:
    sheet = Sheet()
    tokens = (size // patch) ** 2 + 1
    sheet.dense("patches", 3 * patch * patch, width, times=tokens - 1)
    sheet.tensor("class", width)
    sheet.tensor("positions", tokens, width)
    sheet.layer("patches", "embedding", tokens * width)
    for number in range(depth):
        name = f"block{number}"
        sheet.norm(f"{name}.norm0", width)
        sheet.dense(f"{name}.attention.in", width, 3 * width, times=tokens)
        sheet.dense(f"{name}.attention.out", width, width, times=tokens)
        sheet.work(attention_flops(tokens, width))
        sheet.norm(f"{name}.norm1", width)
        sheet.dense(f"{name}.wide", width, 4 * width, times=tokens)
        sheet.dense(f"{name}.narrow", 4 * width, width, times=tokens)
        sheet.layer(name, "block", tokens * width)
    sheet.norm("norm", width)
    sheet.dense("head", width, classes)
    sheet.layer("head", "dense", classes)
    return sheet


def whisper(width: int, depth: int, vocabulary: int = 51865, bands: int = 80) -> Sheet:
    """An encoder of sound and a decoder of text of the same depth; keys have no bias."""
    sheet = Sheet()
    sheet.dense("encoder.conv0", 3 * bands, width, times=2 * AUDIO_TOKENS)
    sheet.dense("encoder.conv1", 3 * width, width, times=AUDIO_TOKENS)
    sheet.tensor("encoder.positions", AUDIO_TOKENS, width, trained=False)  # sines, not learned
    sheet.layer("encoder.convolutions", "conv", AUDIO_TOKENS * width)
    for number in range(depth):
        name = f"encoder.block{number}"
        _half(sheet, f"{name}.attention", width, AUDIO_TOKENS)
        _perceptron(sheet, name, width, AUDIO_TOKENS)
        sheet.layer(name, "block", AUDIO_TOKENS * width)
    sheet.norm("encoder.norm", width)
    sheet.tensor("decoder.words", vocabulary, width)
    sheet.tensor("decoder.positions", TEXT_TOKENS, width)
    # Every block of the decoder attends to the encoder's output, which therefore crosses with the text.
    sheet.layer("decoder.embedding", "embedding", (AUDIO_TOKENS + TEXT_TOKENS) * width)
    for number in range(depth):
        name = f"decoder.block{number}"
        _half(sheet, f"{name}.attention", width, TEXT_TOKENS)
        _cross(sheet, f"{name}.cross", width)
        _perceptron(sheet, name, width, TEXT_TOKENS)
        sheet.layer(name, "block", (AUDIO_TOKENS + TEXT_TOKENS) * width)
    sheet.norm("decoder.norm", width)
    sheet.work(2.0 * TEXT_TOKENS * width * vocabulary)
    sheet.layer("decoder.head", "norm", TEXT_TOKENS * vocabulary)
    return sheet


def _half(sheet: Sheet, name: str, width: int, tokens: int) -> None:
    sheet.norm(f"{name}.norm", width)
    attention(sheet, name, width, tokens, key_bias=False)


def _cross(sheet: Sheet, name: str, width: int) -> None:
    sheet.norm(f"{name}.norm", width)
    for part in ("query", "key", "value", "out"):
        times = TEXT_TOKENS if part in ("query", "out") else AUDIO_TOKENS
        sheet.dense(f"{name}.{part}", width, width, bias=part != "key", times=times)
    sheet.work(attention_flops(TEXT_TOKENS, width, AUDIO_TOKENS))


def _perceptron(sheet: Sheet, name: str, width: int, tokens: int) -> None:
    sheet.norm(f"{name}.norm", width)
    sheet.dense(f"{name}.wide", width, 4 * width, times=tokens)
    sheet.dense(f"{name}.narrow", 4 * width, width, times=tokens)
