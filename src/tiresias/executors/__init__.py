"""Executors carry out commands: they start and stop the processes of runs and report how each run ended.

There is no scheduling logic here. This file imports nothing, because every supervisor process imports the
package and must start within milliseconds.
"""
