"""A language model with the Trainer of Hugging Face, as its documentation shows it."""

import sys

import pace
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

workers, steps = int(sys.argv[1]), int(sys.argv[2])
more = sys.argv[3:]


class Lines(torch.utils.data.Dataset):
    def __len__(self):
        return 52

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(0, 64, (16,), generator=generator)
        return {"input_ids": ids, "labels": ids}


torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
model.register_forward_pre_hook(lambda model, _: pace.step() if model.training else None)
arguments = TrainingArguments(
    output_dir="out",
    max_steps=steps,
    per_device_train_batch_size=4,
    dataloader_num_workers=workers,
    learning_rate=1e-2,
    logging_steps=5,
    save_strategy="steps" if "save" in more else "no",
    save_steps=7,
    save_total_limit=2,
    report_to=[each for each in more if each in ("mlflow", "tensorboard")] or "none",
    run_name="mine",
    use_cpu=True,
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=arguments, train_dataset=Lines())
trainer.train()
trainer.save_model("final")
if trainer.is_world_process_zero():
    print("trained", trainer.state.global_step)
if torch.distributed.is_initialized():
    pace.leave()
