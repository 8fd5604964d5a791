from tiresias.testing.contracts import AllocatorContract


class TestGandiva(AllocatorContract):
    policy = "gandiva"


class TestGandivaWithoutPacking(AllocatorContract):
    policy = "gandiva"
    options = {"packing": "off", "layers": "2"}
