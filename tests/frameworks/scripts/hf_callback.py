"""The recipe with one line: a callback for the Trainer of Hugging Face."""

import sys

import pace
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from tiresias import job

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
model.register_forward_pre_hook(lambda model, _: pace.step() if model.training else None)
ids = [torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index)) for index in range(52)]
data = [{"input_ids": each, "labels": each} for each in ids]
arguments = TrainingArguments(
    output_dir="out",
    max_steps=int(sys.argv[1]),
    per_device_train_batch_size=4,
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[job.hf.Preemptible()])
trainer.train()
job.finished(step=trainer.state.global_step, total_steps=trainer.state.max_steps)
trainer.save_model("final")
