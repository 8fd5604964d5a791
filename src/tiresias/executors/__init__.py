"""Executors carry commands out: they start and stop runs and tell what became of them.

Thin, no scheduling logic. Nothing is imported here, because every supervisor process imports this
package and must start in milliseconds.
"""
