"""The live manager: the Controller of the simulator, driving real processes."""
