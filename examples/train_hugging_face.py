"""A small language model with the Trainer of Hugging Face. No line is about Tiresias: submit it with --auto.

    tir submit --auto -- python examples/train_hugging_face.py
    tir submit --auto -g 2 -- torchrun --standalone --nproc-per-node=2 examples/train_hugging_face.py

The model is built from a configuration and the data are generated, so that nothing is downloaded.
"""

from __future__ import annotations

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    """Ascending numbers from a random start; the model learns to count."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        start = torch.randint(0, 100, (1,), generator=torch.Generator().manual_seed(index))
        ids = (start + torch.arange(32)) % 128
        return {"input_ids": ids, "labels": ids}


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a small language model.")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--loader-workers", type=int, default=2)
    parser.add_argument("--output", default="language-model")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=32, n_embd=64, n_layer=2, n_head=4))
    arguments = TrainingArguments(
        output_dir=options.output,
        max_steps=options.steps,
        per_device_train_batch_size=8,
        dataloader_num_workers=options.loader_workers,
        logging_steps=50,
        save_steps=200,
        save_total_limit=2,
        report_to="none",
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Sentences())
    trainer.train()
    trainer.save_model(f"{options.output}/final")


if __name__ == "__main__":
    main()
