"""Transformers for text: BERT, GPT-2, Llama and Mixtral, from their widths and depths."""

from __future__ import annotations

from tiresias.profiles.zoo.sheet import Sheet


def attention_flops(tokens: int, width: int, seen: int | None = None) -> float:
    """The arithmetic of attention besides the matrices: every token attends to `seen` others."""
    return 4.0 * tokens * (tokens if seen is None else seen) * width


def attention(sheet: Sheet, name: str, width: int, tokens: int, *, key_bias: bool = True) -> None:
    """Queries, keys, values and the output projection, each of full width."""
    for part in ("query", "key", "value", "out"):
        sheet.dense(f"{name}.{part}", width, width, bias=key_bias or part != "key", times=tokens)
    sheet.work(attention_flops(tokens, width))


def bert(width: int, depth: int, tokens: int = 512, vocabulary: int = 30522) -> Sheet:
    """The encoder with its pooler, without the heads of pre-training."""
    sheet = Sheet()
    for name, rows in (("words", vocabulary), ("positions", 512), ("types", 2)):
        sheet.tensor(f"embedding.{name}", rows, width)
    sheet.norm("embedding.norm", width)
    sheet.layer("embedding", "embedding", tokens * width)
    for number in range(depth):
        name = f"block{number}"
        attention(sheet, f"{name}.attention", width, tokens)
        sheet.norm(f"{name}.norm0", width)
        sheet.dense(f"{name}.wide", width, 4 * width, times=tokens)
        sheet.dense(f"{name}.narrow", 4 * width, width, times=tokens)
        sheet.norm(f"{name}.norm1", width)
        sheet.layer(name, "block", tokens * width)
    sheet.dense("pooler", width, width)
    sheet.layer("pooler", "dense", width)
    return sheet


def gpt2(width: int, depth: int, tokens: int = 1024, vocabulary: int = 50257) -> Sheet:
    """GPT-2, in which the matrix of words is also the output projection."""
    sheet = Sheet()
    sheet.tensor("embedding.words", vocabulary, width)
    sheet.tensor("embedding.positions", 1024, width)
    sheet.layer("embedding", "embedding", tokens * width)
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
    sheet.work(2.0 * tokens * width * vocabulary)
    sheet.layer("head", "norm", tokens * vocabulary)
    return sheet


def inner_width(width: int, stretch: float, multiple: int) -> int:
    """The width between the two matrices of Llama's gated layer: 8/3, stretched, rounded up."""
    wished = int(stretch * int(8 * width / 3))
    return -(-wished // multiple) * multiple


def llama(
    width: int,
    depth: int,
    *,
    heads: int,
    shared_heads: int,
    vocabulary: int,
    inner: int,
    tokens: int = 4096,
    experts: int = 1,
    used_experts: int = 1,
) -> Sheet:
    """Llama and Mixtral: groups of heads share keys and values; a router picks experts for each token."""
    sheet = Sheet(element_bytes=2)
    narrow = width // heads * shared_heads
    sheet.tensor("embedding", vocabulary, width)
    sheet.layer("embedding", "embedding", tokens * width)
    for number in range(depth):
        name = f"block{number}"
        sheet.norm(f"{name}.norm0", width, bias=False)
        for part, outputs in (("query", width), ("key", narrow), ("value", narrow), ("out", width)):
            sheet.dense(f"{name}.attention.{part}", width, outputs, bias=False, times=tokens)
        sheet.work(attention_flops(tokens, width))
        sheet.norm(f"{name}.norm1", width, bias=False)
        if experts > 1:
            sheet.dense(f"{name}.router", width, experts, bias=False, times=tokens)
        for expert in range(experts):
            times = tokens if expert < used_experts else 0
            for part, (a, b) in (("gate", (width, inner)), ("up", (width, inner)), ("down", (inner, width))):
                sheet.dense(f"{name}.expert{expert}.{part}", a, b, bias=False, times=times)
        sheet.layer(name, "block", tokens * width)
    sheet.norm("norm", width, bias=False)
    sheet.dense("head", width, vocabulary, bias=False, times=tokens)
    sheet.layer("head", "dense", tokens * vocabulary)
    return sheet
