"""AlexNet, VGG and ResNet (v1) as TensorFlow's benchmarks build them."""

from __future__ import annotations

from tiresias.profiles.zoo.images import Conv, Image
from tiresias.profiles.zoo.sheet import Sheet

VGG_STAGES = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions ahead of each pooling."""
RESNET_STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Bottleneck blocks of each stage."""


def alexnet(classes: int = 1001) -> Sheet:
    """One tower: 64-192-384-384-256, then two layers of 4096."""
    sheet = Sheet()
    image = Image(sheet, 227, norm="none")
    for number, conv in enumerate(
        (Conv(64, 11, 11, 4, valid=True), Conv(192, 5, 5), Conv(384, 3, 3), Conv(384, 3, 3), Conv(256, 3, 3))
    ):
        image.conv(f"conv{number}", conv)
        if number in (0, 1, 4):
            image.pool(3, 2, valid=True)
        sheet.layer(f"conv{number}", "conv", image.elements)
    _head(sheet, image.elements, (4096, 4096, classes))
    return sheet


def vgg(depth: int, classes: int = 1001) -> Sheet:
    """Stages of 3x3 convolutions 64, 128, 256, 512, 512 wide, then two layers of 4096."""
    sheet = Sheet()
    image = Image(sheet, 224, norm="none")
    number = 0
    for stage, convs in enumerate(VGG_STAGES[depth]):
        for conv in range(convs):
            image.conv(f"conv{number}", Conv(min(64 << stage, 512), 3, 3))
            if conv == convs - 1:
                image.pool(2, 2)
            sheet.layer(f"conv{number}", "conv", image.elements)
            number += 1
    _head(sheet, image.elements, (4096, 4096, classes))
    return sheet


def resnet(depth: int, classes: int = 1001) -> Sheet:
    """Bottleneck blocks: 1x1, 3x3, 1x1 of four times the width; the first of a stage has a projection."""
    sheet = Sheet()
    image = Image(sheet, 224, norm="full")
    image.conv("stem", Conv(64, 7, 7, 2))
    image.pool(3, 2)
    sheet.layer("stem", "conv", image.elements)
    for stage, blocks in enumerate(RESNET_STAGES[depth]):
        for block in range(blocks):
            name = f"stage{stage}.block{block}"
            stride = 2 if block == 0 and stage > 0 else 1
            _bottleneck(image, name, 64 << stage, stride)
            sheet.layer(name, "block", image.elements)
    sheet.dense("fc", image.channels, classes)
    sheet.layer("fc", "dense", classes)
    return sheet


def _bottleneck(image: Image, name: str, width: int, stride: int) -> None:
    if image.channels != 4 * width:
        image.copy().conv(f"{name}.shortcut", Conv(4 * width, 1, 1, stride))
    image.conv(f"{name}.conv0", Conv(width, 1, 1, stride))
    image.conv(f"{name}.conv1", Conv(width, 3, 3))
    image.conv(f"{name}.conv2", Conv(4 * width, 1, 1))


def _head(sheet: Sheet, inputs: int, widths: tuple[int, ...]) -> None:
    for number, width in enumerate(widths):
        sheet.dense(f"fc{number}", inputs, width)
        sheet.layer(f"fc{number}", "dense", width)
        inputs = width
