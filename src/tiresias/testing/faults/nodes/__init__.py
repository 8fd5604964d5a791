"""The fault simulation of many nodes: the real Manager, store and GangExecutor over simulated nodes.

Nodes are lost, paused, cut off and return, their agents are started again, their clocks differ. They share a
folder, which is a real one; a node may be cut off from it. Nothing here sleeps: time is virtual.
"""
