"""GoogLeNet, Inception v3 and v4: modules of parallel columns, as in the papers' figures.

A column is a list of convolutions; a tuple inside it is a fork into parallel convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.profiles.zoo.images import Conv, Image
from tiresias.profiles.zoo.sheet import Sheet

Column = Sequence[Conv | tuple[Conv, ...]]


def one(filters: int) -> Conv:
    return Conv(filters, 1, 1)


def three(filters: int) -> Conv:
    return Conv(filters, 3, 3)


def halve(filters: int) -> Conv:
    """A 3x3 with stride 2 and no padding."""
    return Conv(filters, 3, 3, 2, valid=True)


def flat(filters: int) -> Conv:
    return Conv(filters, 1, 7)


def tall(filters: int) -> Conv:
    return Conv(filters, 7, 1)


def fork(filters: int) -> tuple[Conv, Conv]:
    return Conv(filters, 1, 3), Conv(filters, 3, 1)


def module(image: Image, name: str, columns: Sequence[Column], *, pooled: int = 0) -> None:
    """Apply all columns to the image in parallel; a pooling column adds `pooled` channels."""
    outputs, size = pooled, image.size
    for number, column in enumerate(columns):
        branch = image.copy()
        for step, item in enumerate(column):
            parts = item if isinstance(item, tuple) else (item,)
            begun = branch.copy()
            width = 0
            for part, conv in enumerate(parts):
                branch = begun.copy()
                branch.conv(f"{name}.{number}.{step}.{part}", conv)
                width += branch.channels
            branch.channels = width
        outputs, size = outputs + branch.channels, branch.size
    image.channels, image.size = outputs, size
    image.sheet.layer(name, "block", image.elements)


def stem(image: Image, convs: Sequence[Conv | None]) -> None:
    """Plain convolutions; None is a pooling of 3x3 with stride 2 and no padding."""
    for number, conv in enumerate(convs):
        if conv is None:
            image.pool(3, 2, valid=True)
        else:
            image.conv(f"stem{number}", conv)
            image.sheet.layer(f"stem{number}", "conv", image.elements)


def finish(image: Image, classes: int) -> Sheet:
    image.sheet.dense("fc", image.channels, classes)
    image.sheet.layer("fc", "dense", classes)
    return image.sheet


GOOGLENET = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)
"""Widths of the nine modules: 1x1; 1x1 and 3x3; 1x1 and 5x5; 1x1 after pooling."""


def googlenet(classes: int = 1001) -> Sheet:
    image = Image(Sheet(), 224, norm="none")
    image.conv("stem0", Conv(64, 7, 7, 2))
    image.pool(3, 2)
    image.sheet.layer("stem0", "conv", image.elements)
    image.conv("stem1", one(64))
    image.sheet.layer("stem1", "conv", image.elements)
    image.conv("stem2", three(192))
    image.pool(3, 2)
    image.sheet.layer("stem2", "conv", image.elements)
    for number, (a, b, c, d, e, f) in enumerate(GOOGLENET):
        if number in (2, 7):
            image.pool(3, 2)
        module(image, f"module{number}", [[one(a)], [one(b), three(c)], [one(d), Conv(e, 5, 5)], [one(f)]])
    return finish(image, classes)


def inception3(classes: int = 1001, norm: str = "shift") -> Sheet:
    image = Image(Sheet(), 299, norm=norm)
    valid = Conv(32, 3, 3, valid=True)
    stem(image, [halve(32), valid, three(64), None, one(80), Conv(192, 3, 3, valid=True), None])
    for number, n in enumerate((32, 64, 64)):
        double = [one(64), three(96), three(96)]
        module(image, f"a{number}", [[one(64)], [one(48), Conv(64, 5, 5)], double, [one(n)]])
    module(image, "b", [[halve(384)], [one(64), three(96), halve(96)]], pooled=image.channels)
    for number, n in enumerate((128, 160, 160, 192)):
        long = [one(n), tall(n), flat(n), tall(n), flat(192)]
        module(image, f"c{number}", [[one(192)], [one(n), flat(n), tall(192)], long, [one(192)]])
    reduced = [[one(192), halve(320)], [one(192), flat(192), tall(192), halve(192)]]
    module(image, "d", reduced, pooled=image.channels)
    for number in range(2):
        forked: Column = [one(448), three(384), fork(384)]
        module(image, f"e{number}", [[one(320)], [one(384), fork(384)], forked, [one(192)]])
    return finish(image, classes)


def inception4(classes: int = 1001, norm: str = "shift") -> Sheet:
    image = Image(Sheet(), 299, norm=norm)
    stem(image, [halve(32), Conv(32, 3, 3, valid=True), three(64)])
    module(image, "stem3", [[halve(96)]], pooled=image.channels)
    last = Conv(96, 3, 3, valid=True)
    module(image, "stem4", [[one(64), last], [one(64), flat(64), tall(64), last]])
    module(image, "stem5", [[halve(192)]], pooled=image.channels)
    for number in range(4):
        double = [one(64), three(96), three(96)]
        module(image, f"a{number}", [[one(96)], [one(64), three(96)], double, [one(96)]])
    reduced: list[Column] = [[halve(384)], [one(192), three(224), halve(256)]]
    module(image, "reduce-a", reduced, pooled=image.channels)
    for number in range(7):
        long = [one(192), tall(192), flat(224), tall(224), flat(256)]
        module(image, f"b{number}", [[one(384)], [one(192), flat(224), tall(256)], long, [one(128)]])
    reduced = [[one(192), halve(192)], [one(256), flat(256), tall(320), halve(320)]]
    module(image, "reduce-b", reduced, pooled=image.channels)
    for number in range(3):
        forked: Column = [one(384), Conv(448, 3, 1), Conv(512, 1, 3), fork(256)]
        module(image, f"c{number}", [[one(256)], [one(384), fork(256)], forked, [one(256)]])
    return finish(image, classes)
