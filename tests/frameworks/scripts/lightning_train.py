"""A classifier with Lightning, as its documentation shows it."""

import sys

import lightning as L
import pace
import torch
from torch import nn

workers, epochs, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
more = sys.argv[4:]


class Points(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        point = torch.randn(8, generator=generator)
        return point, (point.sum() > 0).long()


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))

    def training_step(self, batch, batch_idx):
        pace.step()
        points, labels = batch
        loss = nn.functional.cross_entropy(self.net(points), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        points, labels = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(points), labels))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)]


L.seed_everything(0)
if kind == "stateful":
    from torchdata.stateful_dataloader import StatefulDataLoader as Loader
else:
    from torch.utils.data import DataLoader as Loader
loader = Loader(Points(), batch_size=4, shuffle=True, num_workers=workers)
checks = Loader(Points(), batch_size=8, num_workers=workers)
model = Classifier()
callbacks = []
if "callback" in more:
    from tiresias import job

    callbacks.append(job.lightning.Preemptible())
trainer = L.Trainer(
    max_epochs=epochs,
    accelerator="cpu",
    devices=2 if "ddp" in more else 1,
    enable_progress_bar=False,
    enable_model_summary=False,
    log_every_n_steps=5,
    callbacks=callbacks,
)
trainer.fit(model, loader, checks)
if trainer.is_global_zero:
    torch.save(model.state_dict(), "final.pt")
    print("trained", trainer.global_step)
if torch.distributed.is_initialized():
    pace.leave()
